//! Names for colours, so that "the green cells" can be found.

use calamine::Color;

/// `green #92D050`.
pub(super) fn name(color: Color) -> String {
    let Color { red, green, blue, .. } = color;
    format!("{} #{red:02X}{green:02X}{blue:02X}", hue(red, green, blue))
}

fn hue(red: u8, green: u8, blue: u8) -> &'static str {
    let [r, g, b] = [red, green, blue].map(|part| f64::from(part) / 255.0);
    let (most, least) = (r.max(g).max(b), r.min(g).min(b));
    let spread = most - least;
    let lightness = f64::midpoint(most, least);
    if spread < 0.08 {
        return match lightness {
            light if light > 0.93 => "white",
            light if light < 0.12 => "black",
            _ => "grey",
        };
    }
    let turn = if most == r {
        ((g - b) / spread).rem_euclid(6.0)
    } else if most == g {
        (b - r) / spread + 2.0
    } else {
        (r - g) / spread + 4.0
    };
    match turn * 60.0 {
        angle if angle < 15.0 => {
            if lightness > 0.8 {
                "pink"
            } else {
                "red"
            }
        }
        angle if angle < 50.0 => {
            if lightness < 0.4 {
                "brown"
            } else {
                "orange"
            }
        }
        angle if angle < 70.0 => "yellow",
        angle if angle < 165.0 => "green",
        angle if angle < 195.0 => "cyan",
        angle if angle < 255.0 => "blue",
        angle if angle < 290.0 => "purple",
        angle if angle < 335.0 => "pink",
        _ => {
            if lightness > 0.75 {
                "pink"
            } else {
                "red"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_fills_have_their_usual_names() {
        for (hex, expected) in [
            (0x92_D0_50, "green #92D050"),
            (0x00_B0_50, "green #00B050"),
            (0xFF_FF_00, "yellow #FFFF00"),
            (0xFF_00_00, "red #FF0000"),
            (0xC0_00_00, "red #C00000"),
            (0xFF_C0_00, "orange #FFC000"),
            (0x00_B0_F0, "blue #00B0F0"),
            (0x00_70_C0, "blue #0070C0"),
            (0x44_72_C4, "blue #4472C4"),
            (0x70_30_A0, "purple #7030A0"),
            (0xD9_D9_D9, "grey #D9D9D9"),
            (0xFF_FF_FF, "white #FFFFFF"),
            (0x00_00_00, "black #000000"),
            (0xFF_C0_CB, "pink #FFC0CB"),
            (0x8B_45_13, "brown #8B4513"),
        ] {
            let [_, red, green, blue] = u32::to_be_bytes(hex);
            assert_eq!(name(Color::new(255, red, green, blue)), expected);
        }
    }
}
