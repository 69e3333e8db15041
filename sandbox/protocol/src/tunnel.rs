//! What a tunnel may hold.

/// Bytes that may be under way in one direction of one tunnel: at a millisecond from end to end that is 256 MB/s.
pub const TUNNEL_WINDOW_BYTES: u32 = 256 << 10;

/// Most bytes in one frame of a tunnel, so that other frames get in between.
pub const TUNNEL_PIECE_BYTES: usize = 32 << 10;

/// Most tunnels at a time. Package managers open a dozen and browsers some tens; with the window it bounds what one
/// sandbox can make the host hold to 32 MiB.
pub const MAX_TUNNELS: usize = 128;

/// Bytes that may still be sent in one direction of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit(u32);

impl Default for Credit {
    fn default() -> Self {
        Self(TUNNEL_WINDOW_BYTES)
    }
}

impl Credit {
    /// How much is left.
    pub fn bytes(self) -> usize {
        self.0 as usize
    }

    /// Spends some; `None`, and nothing spent, when there is not enough.
    pub fn spend(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.checked_sub(u32::try_from(bytes).ok()?)?;
        Some(())
    }

    /// Takes more; `None`, and nothing taken, when that is more than the window.
    pub fn add(&mut self, bytes: u32) -> Option<()> {
        self.0 = self.0.checked_add(bytes).filter(|sum| *sum <= TUNNEL_WINDOW_BYTES)?;
        Some(())
    }
}
