//! The lock protocol of spindle as a pure function: no clock, no runtime, no client.
