//! The real binaries, driven by rmcp's client over stdio and HTTP in both eras of the protocol.

mod bash;
mod bash_http;
mod bash_life;
mod http;
mod schemas;
mod submit;
mod support;
