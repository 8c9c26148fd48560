//! BYTES as text, and back.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;

use super::misbound::misbound;
use super::text::check_size;
use crate::engine::Value;
use crate::sql::error::{Result, SqlError};

/// `TO_HEX`
pub fn to_hex(arguments: &[Value]) -> Result<Value> {
    let [Value::Bytes(bytes)] = arguments else { return Err(misbound("TO_HEX")) };
    check_size("TO_HEX", bytes.len() * 2)?;
    let digit = |digit: u8| char::from_digit(u32::from(digit), 16).unwrap_or('0');
    Ok(Value::String(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()))
}

/// `FROM_HEX`: an odd number of digits starts with half a byte.
pub fn from_hex(arguments: &[Value]) -> Result<Value> {
    let [Value::String(text)] = arguments else { return Err(misbound("FROM_HEX")) };
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let Some(digits) = digits else {
        let message = "Failed to decode invalid hexadecimal string due to invalid character";
        return Err(SqlError::out_of_range(message));
    };
    let (odd, pairs) = digits.split_at(digits.len() % 2);
    let bytes = pairs.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit));
    Ok(Value::Bytes(odd.iter().copied().chain(bytes).collect()))
}

/// `TO_BASE64`
pub fn to_base64(arguments: &[Value]) -> Result<Value> {
    let [Value::Bytes(bytes)] = arguments else { return Err(misbound("TO_BASE64")) };
    check_size("TO_BASE64", bytes.len().div_ceil(3) * 4)?;
    Ok(Value::String(BASE64_STANDARD.encode(bytes)))
}

/// `FROM_BASE64`
pub fn from_base64(arguments: &[Value]) -> Result<Value> {
    let [Value::String(text)] = arguments else { return Err(misbound("FROM_BASE64")) };
    let digits: String = text.chars().filter(|next| !next.is_ascii_whitespace()).collect();
    // Padding may be missing, and what its digits say beyond the last byte means nothing.
    const FORM: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(&STANDARD, FORM)
        .decode(digits)
        .map(Value::Bytes)
        .map_err(|_| SqlError::out_of_range("Failed to decode invalid base64 string"))
}
