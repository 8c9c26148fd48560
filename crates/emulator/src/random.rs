//! Chance that a seed determines.

/// A sequence of numbers that its seed determines (SplitMix64).
pub(crate) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to 1.
    pub fn fraction(&mut self) -> f64 {
        // 53 bits, as many as the fraction of an f64 has.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
