//! `gaia view` in a browser, and what `gaia export` writes in the hands of those it is for.

// Helpers of tests are no test functions to clippy, and may fail a test as these do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod exports;
mod pages;
mod viewer;
