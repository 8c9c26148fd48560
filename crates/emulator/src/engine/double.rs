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
