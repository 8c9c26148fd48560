//! `FLOAT64` as texts.

/// Returns a decimal that means this number: `1.5`, `1e+20`, `inf`.
///
/// It has fifteen digits if they are enough, else 17, and an exponent where the number is far from
/// one, as C's `%g` does.
pub fn text(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let enough = general(value, 15);
    if enough.parse() == Ok(value) { enough } else { general(value, 17) }
}

/// As JSON documents have it: with as few digits as are enough, and never like an integer.
pub fn in_json(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..15).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
    let text = value.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

/// C's `%.*g`.
fn general(value: f64, digits: usize) -> String {
    let scientific = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let precision = i32::try_from(digits).unwrap_or(i32::MAX);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= precision {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs());
    }
    let places = usize::try_from(precision - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.places$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_short_as_they_can_be() {
        for (value, written) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.5, "1.5"),
            (0.1, "0.1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (123_456_789.0, "123456789"),
            (777_603_728.355_915_1, "777603728.35591507"),
            (1e15, "1e+15"),
            (1e14, "100000000000000"),
            (1e20, "1e+20"),
            (1.25e-5, "1.25e-05"),
            (0.0001, "0.0001"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "4.94065645841247e-324"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(text(value), written);
        }
        assert_eq!(
            [1.0, -0.0, 1.5, 1e20, 777_603_728.355_915_1, 5e-324, 1e15, 0.0001].map(in_json),
            ["1.0", "-0.0", "1.5", "1e+20", "777603728.3559151", "5e-324", "1e+15", "0.0001"]
        );
    }
}
