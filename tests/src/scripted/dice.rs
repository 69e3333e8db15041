use sha2::{Digest, Sha256};

/// Chance that depends on nothing but its name: the same draw whatever the order in which requests arrive.
#[derive(Debug, Clone)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64, task: &str, step: usize, attempt: u32) -> Self {
        let digest = Sha256::digest(format!("{seed}/{task}/{step}/{attempt}"));
        let mut state = 0;
        for byte in &digest[..8] {
            state = state << 8 | u64::from(*byte);
        }
        Self { state }
    }

    /// The next 64 bits (splitmix64).
    pub(crate) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number in 0..1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number in 0..bound; 0 when the bound is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        match bound {
            0 => 0,
            bound => (self.bits() % bound as u64) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_the_same_every_time() {
        let draw = |n| Dice::new(7, "task", n, 1).fraction();
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
        let mean = (0..2000).map(draw).sum::<f64>() / 2000.0;
        assert!((0.47..0.53).contains(&mean), "{mean}");
    }
}
