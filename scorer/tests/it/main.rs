//! The scorers over every recorded outcome of the originals, and what holds for any input.

mod miss_properties;
mod official_properties;
mod quasi_properties;
mod statistics;
mod vectors;
mod worked_examples;
