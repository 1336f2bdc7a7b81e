//! Binary messages: an address followed by the bytes of a payload.
//!
//! ```text
//! event (server to client)     payload (client to server)
//! u8   1                       u8   2
//! u64  number                  u64  number
//! u32  k, top bit: more        u16  length of ref
//! u16  length of run           ref  UTF-8
//! run  UTF-8                   data the rest
//! data the rest
//! ```
//!
//! Integers are big-endian. The number is at a fixed offset, so a reader of one run needs no parser.

/// The first byte of an event.
pub(crate) const EVENT: u8 = 1;
/// The first byte of a payload.
pub(crate) const PAYLOAD: u8 = 2;
/// The bit in the first byte of `k` that is set if more payloads of the same event follow.
#[cfg(feature = "server")]
pub(crate) const MORE_BIT: u8 = 0x80;
/// The same bit in `k` as a number.
#[cfg(feature = "client")]
const MORE: u32 = 1 << 31;
/// The offset of `k` in an event.
#[cfg(feature = "server")]
pub(crate) const K_OFFSET: usize = 9;

/// Returns reference and number of a payload, and the offset of its data.
#[cfg(feature = "server")]
pub(crate) fn read_payload(message: &[u8]) -> Option<(&str, u64, usize)> {
    let (&PAYLOAD, rest) = message.split_first()? else { return None };
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    let reference = std::str::from_utf8(rest.get(..length)?).ok()?;
    Some((reference, u64::from_be_bytes(*number), 11 + length))
}

/// Appends the address of a payload. A reference longer than 65,535 bytes is truncated, and matches no publisher.
#[cfg(feature = "client")]
pub(crate) fn write_payload(reference: &str, number: u64, out: &mut Vec<u8>) {
    out.push(PAYLOAD);
    out.extend_from_slice(&number.to_be_bytes());
    write_name(reference, out);
}

/// Appends the address of an event, with the present value of `k`.
#[cfg(feature = "server")]
pub(crate) fn write_event(run: &str, number: u64, k: u32, out: &mut Vec<u8>) {
    out.push(EVENT);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&k.to_be_bytes());
    write_name(run, out);
}

/// Returns run, number, `k` and `more` of an event, and the offset of its data.
#[cfg(feature = "client")]
pub(crate) fn read_event(message: &[u8]) -> Option<(&str, u64, u32, bool, usize)> {
    let (&EVENT, rest) = message.split_first()? else { return None };
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (k, rest) = rest.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    let run = std::str::from_utf8(rest.get(..length)?).ok()?;
    let k = u32::from_be_bytes(*k);
    Some((run, u64::from_be_bytes(*number), k & !MORE, k & MORE != 0, 15 + length))
}

/// Appends a name with its length. A name beyond the largest length is truncated.
fn write_name(name: &str, out: &mut Vec<u8>) {
    let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend(name.bytes().take(usize::from(length)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        let mut out = Vec::new();
        write_payload("p1", 7, &mut out);
        out.extend_from_slice(b"data");
        let (reference, number, at) = read_payload(&out).unwrap();
        assert_eq!((reference, number, &out[at..]), ("p1", 7, &b"data"[..]));

        let mut out = Vec::new();
        write_event("run", 9, 1 | MORE, &mut out);
        assert_eq!(read_event(&out), Some(("run", 9, 1, true, out.len())));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_are_read_or_refused(mut bytes: Vec<u8>, kind in 1_u8..=2) {
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            let whole = bytes.len();
            assert!(read_payload(&bytes).is_none_or(|(_, _, at)| at <= whole));
            assert!(read_event(&bytes).is_none_or(|(.., at)| at <= whole));
        }
    }

    #[test]
    fn cut_messages_are_no_messages() {
        let mut out = Vec::new();
        write_payload("p1", 7, &mut out);
        for end in 0..out.len() {
            assert_eq!(read_payload(&out[..end]), None, "{end}");
        }
        write_event("run", 9, 0, &mut out);
        assert_eq!(read_event(&out), None);
    }
}
