//! The measures of the picture.

pub const WIDTH: f64 = 1280.0;
pub const LEFT: f64 = 74.0;
pub const RIGHT: f64 = 24.0;
pub const TOP: f64 = 70.0;
/// Below the lanes, for the seconds.
pub const AXIS: f64 = 34.0;
/// A longer run is broken into strips, one below the other.
pub const STRIP_SECONDS: f64 = 75.0;
