//! Encoding of the protobuf primitives.

/// Wire types.
pub(super) const VARINT: u32 = 0;
pub(super) const FIXED64: u32 = 1;
pub(super) const LENGTH: u32 = 2;

/// Appends a number in base 128, the lowest seven bits first.
pub(super) fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "the low seven bits")]
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 0x80")]
    out.push(value as u8);
}

/// Appends the key of a field: its number and its wire type.
pub(super) fn write_key(tag: u32, wire_type: u32, out: &mut Vec<u8>) {
    write_varint(u64::from(tag << 3 | wire_type), out);
}

/// Writes a text field, also if it is empty.
pub(crate) fn write_text(tag: u32, text: &str, out: &mut Vec<u8>) {
    write_key(tag, LENGTH, out);
    write_varint(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// Writes a length-delimited field whose length is known only afterwards. One byte is reserved for the length, which suffices
/// for most; a longer length moves the content.
pub(crate) fn write_nested(tag: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    write_key(tag, LENGTH, out);
    let start = out.len();
    out.push(0);
    write(out);
    let length = out.len() - start - 1;
    let mut prefix = Vec::new();
    if let Some(first) = out.get_mut(start)
        && length < 0x80
    {
        #[expect(clippy::cast_possible_truncation, reason = "below 0x80")]
        let byte = length as u8;
        *first = byte;
    } else {
        write_varint(length as u64, &mut prefix);
        out.splice(start..=start, prefix);
    }
}
