//! One record of a segment file: a header of fixed size, then text.
//!
//! All numbers are little-endian. The check covers the header behind it and the text, so that what a
//! crash tore off is recognised.

use rota_core::id::RunId;
use rota_core::time::UnixMs;
use rota_port::logs::LogKey;

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 41;
/// Text of one record; longer logs take more records.
pub(super) const TEXT_BYTES_MAX: usize = 64 << 10;

/// What a record says beside its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) key: LogKey,
    /// Where its text begins in the whole log.
    pub(super) offset: u64,
    pub(super) at: UnixMs,
    /// No more follows; there is no text.
    pub(super) is_close: bool,
    pub(super) text_bytes: u32,
}

/// Appends a record.
pub(super) fn write(out: &mut Vec<u8>, header: &Header, text: &[u8]) {
    debug_assert_eq!(header.text_bytes as usize, text.len());
    out.extend_from_slice(&header.text_bytes.to_le_bytes());
    let check_at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&header.key.run.0.to_le_bytes());
    out.extend_from_slice(&header.key.shard.to_le_bytes());
    out.extend_from_slice(&header.key.no.to_le_bytes());
    out.extend_from_slice(&header.offset.to_le_bytes());
    out.extend_from_slice(&header.at.0.to_le_bytes());
    out.push(u8::from(header.is_close));
    out.extend_from_slice(text);
    let check = check(&out[check_at + 4..]);
    out[check_at..check_at + 4].copy_from_slice(&check.to_le_bytes());
}

/// Reads the record that `bytes` begin with; none if it is torn.
pub(super) fn read(bytes: &[u8]) -> Option<Header> {
    let mut rest = Fields(bytes.get(..HEADER_BYTES)?);
    let (text_bytes, stored) = (rest.u32()?, rest.u32()?);
    let key = LogKey { run: RunId(rest.u64()?), shard: rest.u32()?, no: rest.u32()? };
    let (offset, at) = (rest.u64()?, UnixMs(rest.u64()?.cast_signed()));
    let is_close = *rest.0.first()? == 1;
    let whole = bytes.get(8..HEADER_BYTES.checked_add(text_bytes as usize)?)?;
    (check(whole) == stored).then_some(Header { key, offset, at, is_close, text_bytes })
}

/// Takes numbers off the front of bytes.
pub(super) struct Fields<'b>(pub(super) &'b [u8]);

impl Fields<'_> {
    pub(super) fn u32(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*head))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*head))
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo), folded: enough to tell a torn write, not meant against malice.
fn check(bytes: &[u8]) -> u32 {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    u32::try_from((hash >> 32) ^ (hash & 0xffff_ffff)).expect("half of 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_torn_is_no_record() {
        let key = LogKey { run: RunId(1 << 50), shard: 3, no: 2 };
        let header = Header { key, offset: 9, at: UnixMs(-5), is_close: false, text_bytes: 6 };
        let mut bytes = Vec::new();
        write(&mut bytes, &header, b"hello\n");
        assert_eq!(bytes.len(), HEADER_BYTES + 6);
        assert_eq!(read(&bytes), Some(header));
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), None, "{cut}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            assert_eq!(read(&damaged), None, "{at}");
        }
    }
}
