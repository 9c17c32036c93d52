//! As much of the tar format (POSIX ustar) as a backup needs: regular files with short names, written and read once
//! through. Any tar program can list and unpack what is written here; what is read here is only what was written here.

use std::io::{self, Read, Write};

const BLOCK: usize = 512;
const NAME_MAX: usize = 100;
/// Eleven octal digits end at 8 GiB; beyond that the size is binary, as GNU tar has it.
const OCTAL_MAX: u64 = 1 << 33;

/// Begins a file of so many bytes; the caller writes them, and then [`pad`].
pub(super) fn begin(to: &mut dyn Write, name: &str, bytes: u64, mtime_s: u64) -> io::Result<()> {
    assert!(name.len() <= NAME_MAX && name.is_ascii(), "names of a backup are short");
    let mut block = [0; BLOCK];
    block[..name.len()].copy_from_slice(name.as_bytes());
    octal(&mut block[100..108], 0o600);
    octal(&mut block[108..116], 0);
    octal(&mut block[116..124], 0);
    if bytes < OCTAL_MAX {
        octal(&mut block[124..136], bytes);
    } else {
        block[124] = 0x80;
        block[128..136].copy_from_slice(&bytes.to_be_bytes());
    }
    octal(&mut block[136..148], mtime_s);
    block[156] = b'0';
    block[257..265].copy_from_slice(b"ustar\x0000");
    let sum = checksum(&block);
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    to.write_all(&block)
}

/// Fills the last block of a file.
pub(super) fn pad(to: &mut dyn Write, bytes: u64) -> io::Result<()> {
    to.write_all(&[0; BLOCK][..padding(bytes)])
}

/// Two empty blocks.
pub(super) fn finish(to: &mut dyn Write) -> io::Result<()> {
    to.write_all(&[0; 2 * BLOCK])
}

/// The next file's name and size; none at the end. The caller reads its bytes, and then [`skip_pad`].
pub(super) fn next(from: &mut dyn Read) -> io::Result<Option<(String, u64)>> {
    let mut block = [0; BLOCK];
    from.read_exact(&mut block)?;
    if block.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let stored = read_octal(&block[148..156]).ok_or_else(broken)?;
    if stored != u64::from(checksum(&block)) {
        return Err(broken());
    }
    let end = block[..NAME_MAX].iter().position(|byte| *byte == 0).unwrap_or(NAME_MAX);
    let name = std::str::from_utf8(&block[..end]).map_err(|_| broken())?.to_owned();
    let bytes = if block[124] == 0x80 {
        u64::from_be_bytes(block[128..136].try_into().expect("eight bytes"))
    } else {
        read_octal(&block[124..136]).ok_or_else(broken)?
    };
    let is_regular = matches!(block[156], b'0' | 0);
    if is_regular { Ok(Some((name, bytes))) } else { Err(broken()) }
}

/// Reads over what fills the last block of a file.
pub(super) fn skip_pad(from: &mut dyn Read, bytes: u64) -> io::Result<()> {
    from.read_exact(&mut [0; BLOCK][..padding(bytes)])
}

fn padding(bytes: u64) -> usize {
    let over = usize::try_from(bytes % BLOCK as u64).expect("less than a block");
    if over == 0 { 0 } else { BLOCK - over }
}

/// The sum of all bytes, with blanks in the place of the sum.
fn checksum(block: &[u8; BLOCK]) -> u32 {
    let own: u32 = block[148..156].iter().map(|byte| u32::from(*byte)).sum();
    block.iter().map(|byte| u32::from(*byte)).sum::<u32>() - own + 8 * u32::from(b' ')
}

/// Octal digits with zeros before and one end mark.
fn octal(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    field[..digits].copy_from_slice(format!("{value:0digits$o}").as_bytes());
}

fn read_octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    u64::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "this is no archive that `rota backup` wrote")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, content) in files {
            begin(&mut bytes, name, content.len() as u64, 1_800_000_000).unwrap();
            bytes.extend_from_slice(content);
            pad(&mut bytes, content.len() as u64).unwrap();
        }
        finish(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let files: [(&str, &[u8]); 4] = [("a", b""), ("logs/1.log", b"x"), ("b", &[7; 512]), ("c", &[8; 513])];
        let bytes = archive(&files);
        let mut from = bytes.as_slice();
        for (name, content) in files {
            assert_eq!(next(&mut from).unwrap(), Some((name.to_owned(), content.len() as u64)));
            let mut found = vec![0; content.len()];
            from.read_exact(&mut found).unwrap();
            assert_eq!(found, content);
            skip_pad(&mut from, content.len() as u64).unwrap();
        }
        assert_eq!(next(&mut from).unwrap(), None);
    }

    #[test]
    fn large_sizes_are_kept() {
        for bytes in [OCTAL_MAX - 1, OCTAL_MAX, 1 << 40] {
            let mut header = Vec::new();
            begin(&mut header, "rota.db", bytes, 0).unwrap();
            assert_eq!(next(&mut header.as_slice()).unwrap(), Some(("rota.db".to_owned(), bytes)));
        }
    }

    #[test]
    fn what_is_cut_off_or_changed_is_refused() {
        let bytes = archive(&[("a", b"abc")]);
        assert!(next(&mut &bytes[..300]).is_err());
        let mut changed = bytes.clone();
        changed[0] = b'b';
        assert!(next(&mut changed.as_slice()).is_err());
        assert!(next(&mut [b'x'; 600].as_slice()).is_err());
    }

    #[test]
    fn every_tar_program_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("b.tar");
        std::fs::write(&file, archive(&[("rota.db", &[1; 700]), ("logs/2.log", b"line\n")])).unwrap();
        let listed = std::process::Command::new("tar").arg("-tvf").arg(&file).output().unwrap();
        assert!(listed.status.success(), "{listed:?}");
        let text = String::from_utf8(listed.stdout).unwrap();
        assert!(text.contains("700") && text.contains("rota.db") && text.contains("logs/2.log"), "{text}");
    }
}
