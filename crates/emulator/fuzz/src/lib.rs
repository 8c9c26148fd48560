//! The code that the fuzz targets work on: the emulator's sources without its network. The network
//! takes many times as long to build and has nothing to do with reading texts.

#![allow(dead_code, unused_imports)]

#[path = "../../src/engine/mod.rs"]
pub mod engine;
#[path = "../../src/sql/mod.rs"]
pub mod sql;
