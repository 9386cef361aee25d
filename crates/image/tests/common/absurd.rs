//! Pictures that state absurd sizes, counts and tables, which mutation of bytes hardly finds.
//! Choices come from bytes, those of a fuzzer or of a random generator.

/// Choices, all zeros behind the last byte.
pub(crate) struct Choices<'a>(pub(crate) &'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let byte = self.0.first().copied().unwrap_or(0);
        self.0 = self.0.get(1..).unwrap_or_default();
        byte
    }

    /// A number below a bound of at most 65,536.
    fn below(&mut self, bound: usize) -> usize {
        let wide = usize::from(self.byte()) << 8 | usize::from(self.byte());
        wide % bound.max(1)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.byte()) % of.len()]
    }

    /// A number that is small, at a limit, or any.
    fn number(&mut self) -> u32 {
        match self.byte() % 4 {
            0 => u32::from(self.byte() % 16),
            1 => self.one(&[0, 1, 0xff, 0x3fff, 0x7fff, 0xffff, 0xff_ffff, 0x7fff_ffff, u32::MAX]),
            2 => 1 << (self.byte() % 32),
            _ => u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }

    /// A value that fits, mostly, or an absurd one.
    fn mostly(&mut self, fits: u32) -> u32 {
        if self.byte().is_multiple_of(8) { self.number() } else { fits }
    }

    fn side(&mut self) -> u32 {
        let side = 1 + self.below(400) as u32;
        self.mostly(side)
    }

    fn noise(&mut self, most: usize) -> Vec<u8> {
        let count = self.below(most);
        (0..count).map(|i| self.byte() ^ (i * 31) as u8).collect()
    }
}

/// Pictures that follow their formats.
const VALID: &[&[u8]] = &[
    include_bytes!("../fixtures/pictures/interlaced_tiny.png"),
    include_bytes!("../fixtures/pictures/palette_4.png"),
    include_bytes!("../fixtures/pictures/420.jpg"),
    include_bytes!("../fixtures/pictures/progressive.jpg"),
    include_bytes!("../fixtures/pictures/cmyk_progressive.jpg"),
    include_bytes!("../fixtures/pictures/exif_6.jpg"),
    include_bytes!("../fixtures/pictures/lossy_alpha.webp"),
    include_bytes!("../fixtures/pictures/lossless_alpha.webp"),
    include_bytes!("../fixtures/pictures/animated.webp"),
    include_bytes!("../fixtures/pictures/animated.gif"),
    include_bytes!("../fixtures/pictures/runs.bmp"),
    include_bytes!("../fixtures/pictures/palette.bmp"),
];

/// A file of any of the kinds.
pub(crate) fn file(choices: &mut Choices<'_>) -> Vec<u8> {
    match choices.byte() % 8 {
        0 => png(choices),
        1 => jpeg(choices),
        2 => webp(choices),
        3 => gif(choices),
        4 => bmp(choices),
        _ => changed(choices),
    }
}

/// A valid file with a few other bytes.
fn changed(c: &mut Choices<'_>) -> Vec<u8> {
    let mut bytes = c.one(VALID).to_vec();
    for _ in 0..1 + c.below(6) {
        let place = c.below(bytes.len());
        // headers are at the start
        let place = if c.byte().is_multiple_of(2) { place % 64 } else { place };
        let end = bytes.len();
        bytes[place.min(end - 1)] = c.byte();
    }
    bytes
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |mut sum, byte| {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
        }
        sum
    })
}

/// A chunk of PNG.
pub(crate) fn chunk(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let sum = crc(&[&kind[..], content].concat());
    [&(content.len() as u32).to_be_bytes()[..], kind, content, &sum.to_be_bytes()].concat()
}

/// The header of a PNG.
pub(crate) fn png_head(width: u32, height: u32, kind: [u8; 3]) -> Vec<u8> {
    let [depth, colour, interlace] = kind;
    let sides = [width.to_be_bytes(), height.to_be_bytes()].concat();
    let header = [&sides[..], &[depth, colour, 0, 0, interlace]].concat();
    [b"\x89PNG\r\n\x1a\n".to_vec(), chunk(b"IHDR", &header)].concat()
}

/// Zeros in the format of zlib, 13 bits for 258 of them, without a checksum.
pub(crate) fn zeros(count: usize) -> Vec<u8> {
    let (mut out, mut buffer, mut bits) = (vec![0x78, 0x01], 0_u64, 0);
    let mut put = |value: u64, count: u32| {
        buffer |= value << bits;
        bits += count;
        while bits >= 8 {
            out.push(buffer as u8);
            buffer >>= 8;
            bits -= 8;
        }
    };
    // a last block with fixed codes, a literal zero: codes have their highest bit first
    put(0b011, 3);
    put(0b0000_1100, 8);
    for _ in 0..count.div_ceil(258) {
        // length 258, distance 1
        put(0b1010_0011, 8);
        put(0, 5);
    }
    put(0, 7);
    put(0, 7);
    out
}

fn png(c: &mut Choices<'_>) -> Vec<u8> {
    let kind = [c.one(&[1, 2, 4, 8, 8, 16]), c.one(&[0, 2, 3, 4, 6]), c.byte() % 2];
    let (width, height) = (c.side(), c.side());
    let mut file = png_head(width, height, kind);
    for _ in 0..c.below(8) {
        let names =
            [b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"PLTE", b"tRNS", b"eXIf", b"acTL", b"fcTL"];
        let content = match c.byte() % 3 {
            0 => [&b"name\0\0"[..], &zeros(c.below(65_536) * 64)].concat(),
            1 => [c.number().to_be_bytes(), c.number().to_be_bytes()].concat().repeat(4),
            _ => c.noise(800),
        };
        file.extend(chunk(c.one(&names), &content));
    }
    let size = u64::from(width).saturating_mul(u64::from(height)).saturating_mul(8);
    let data = match c.byte() % 3 {
        0 => c.noise(2_000),
        _ => zeros(size.min(1 << 22) as usize + c.below(65_536)),
    };
    file.extend(chunk(b"IDAT", &data));
    file.extend(chunk(b"IEND", &[]));
    file
}

/// A segment of JPEG.
fn segment(marker: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() + 2) as u16;
    [&[0xff, marker][..], &length.to_be_bytes(), content].concat()
}

/// A JPEG of three components, with scans of given bytes.
pub(crate) fn jpeg_of(
    frame: u8,
    width: u16,
    height: u16,
    sampling: [u8; 3],
    scans: &[Vec<u8>],
) -> Vec<u8> {
    let mut file = vec![0xff, 0xd8];
    file.extend(segment(0xdb, &[&[0][..], &[1; 64]].concat()));
    let [height, width] = [height, width].map(u16::to_be_bytes);
    let mut header = [&[8][..], &height, &width, &[3]].concat();
    for (id, sampling) in (1..).zip(sampling) {
        header.extend([id, sampling, 0]);
    }
    file.extend(segment(frame, &header));
    for class in [0, 0x10] {
        // two codes of one bit and two bits
        let table = [&[class, 1, 1][..], &[0; 14], &[0, 1]].concat();
        file.extend(segment(0xc4, &table));
    }
    scans.iter().for_each(|scan| file.extend(scan));
    file.extend([0xff, 0xd9]);
    file
}

/// A scan of all components or of one.
pub(crate) fn scan(components: &[u8], band: [u8; 3], data: &[u8]) -> Vec<u8> {
    let ids = components.iter().flat_map(|id| [*id, 0]);
    let head: Vec<u8> = [components.len() as u8].into_iter().chain(ids).chain(band).collect();
    let stuffed = data.iter().flat_map(|byte| match byte {
        0xff => vec![0xff, 0],
        byte => vec![*byte],
    });
    segment(0xda, &head).into_iter().chain(stuffed).collect()
}

fn jpeg(c: &mut Choices<'_>) -> Vec<u8> {
    let (width, height) = (c.side() as u16, c.side() as u16);
    let sampling = c.one(&[[0x11; 3], [0x22, 0x11, 0x11], [0x41, 0x11, 0x11], [0x14, 0x21, 0x12]]);
    let sampling = sampling.map(|factor| c.mostly(factor) as u8);
    let frame = c.one(&[0xc0, 0xc1, 0xc2, 0xc2, 0xc2, 0xc3]);
    let mut scans = Vec::new();
    let most = if c.byte().is_multiple_of(8) { 200 } else { 6 };
    for i in 0..1 + c.below(most) {
        if c.byte().is_multiple_of(4) {
            let marker = c.one(&[0xc4, 0xdb, 0xdd, 0xe0, 0xe1, 0xe2, 0xee, 0xfe]);
            let tags = [
                &b"Exif\0\0"[..],
                b"ICC_PROFILE\0\x01\x02",
                b"http://ns.adobe.com/xmp/extension/\0",
                b"Adobe\0\x64\0\0\0\0\x02",
                b"MM\0*",
                b"",
            ];
            let content = [c.one(&tags), &c.noise(90)].concat();
            scans.push(segment(marker, &content));
        }
        let components = c.one(&[&[1, 2, 3][..], &[1], &[2], &[3], &[1, 3]]);
        let band = if i == 0 { [0, c.one(&[0, 63]), 0] } else { [1, 63, c.one(&[0, 1, 0x10])] };
        let band = band.map(|value| c.mostly(value) as u8);
        let data = c.noise(700);
        scans.push(scan(components, band, &data));
    }
    jpeg_of(frame, width, height, sampling, &scans)
}

/// A chunk of WebP.
pub(crate) fn riff(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let mut chunk = [&kind[..], &(content.len() as u32).to_le_bytes(), content].concat();
    chunk.resize(chunk.len().next_multiple_of(2), 0);
    chunk
}

/// A WebP of chunks.
pub(crate) fn webp_of(chunks: &[Vec<u8>]) -> Vec<u8> {
    riff(b"RIFF", &[b"WEBP".to_vec(), chunks.concat()].concat())
}

/// The header of an extended WebP.
pub(crate) fn extended(flags: u8, width: u32, height: u32) -> Vec<u8> {
    let sides = [width, height].map(|side| side.wrapping_sub(1).to_le_bytes());
    riff(b"VP8X", &[&[flags, 0, 0, 0][..], &sides[0][..3], &sides[1][..3]].concat())
}

/// The head of lossless data.
pub(crate) fn lossless(width: u32, height: u32) -> Vec<u8> {
    let bits = width.wrapping_sub(1) & 0x3fff | (height.wrapping_sub(1) & 0x3fff) << 14 | 1 << 28;
    [&[0x2f][..], &bits.to_le_bytes()].concat()
}

fn lossy(width: u32, height: u32) -> Vec<u8> {
    let sides = [width as u16, height as u16].map(u16::to_le_bytes).concat();
    [&[0x10, 0x02, 0x00, 0x9d, 0x01, 0x2a][..], &sides].concat()
}

fn webp(c: &mut Choices<'_>) -> Vec<u8> {
    let (width, height) = (c.side(), c.side());
    let picture = |c: &mut Choices<'_>| {
        let (width, height) = (c.mostly(width), c.mostly(height));
        let (kind, head) = match c.byte() % 2 {
            0 => (b"VP8 ", lossy(width, height)),
            _ => (b"VP8L", lossless(width, height)),
        };
        let alpha =
            if c.byte().is_multiple_of(4) { riff(b"ALPH", &c.noise(100)) } else { Vec::new() };
        [alpha, riff(kind, &[head, c.noise(900)].concat())].concat()
    };
    let mut chunks = Vec::new();
    if !c.byte().is_multiple_of(4) {
        chunks.push(extended(c.one(&[0, 0x10, 0x02, 0x12, 0x08, 0x2c]), width, height));
    }
    for _ in 0..1 + c.below(5) {
        let chunk = match c.byte() % 6 {
            0 => riff(b"EXIF", &[&b"II*\0"[..], &c.noise(40)].concat()),
            1 => riff(b"ANIM", &[0; 6]),
            2 => {
                let sides =
                    [c.mostly(0), c.mostly(0), width.wrapping_sub(1), height.wrapping_sub(1)];
                let head: Vec<u8> =
                    sides.iter().flat_map(|side| side.to_le_bytes()[..3].to_vec()).collect();
                riff(b"ANMF", &[head, vec![1, 0, 0, 0], picture(c)].concat())
            }
            3 => {
                // a length that the file does not have
                let mut chunk = riff(c.one(&[b"ICCP", b"XMP ", b"EXIF"]), &c.noise(20));
                chunk[4..8].copy_from_slice(&c.number().to_le_bytes());
                chunk
            }
            _ => picture(c),
        };
        chunks.push(chunk);
    }
    webp_of(&chunks)
}

fn gif(c: &mut Choices<'_>) -> Vec<u8> {
    let (width, height) = (c.side() as u16, c.side() as u16);
    let blocks = |data: &[u8]| {
        let blocks = data.chunks(255).flat_map(|part| [&[part.len() as u8][..], part].concat());
        blocks.chain([0]).collect::<Vec<u8>>()
    };
    let sides = [width, height].map(u16::to_le_bytes).concat();
    let mut file = [&b"GIF89a"[..], &sides, &[c.one(&[0, 0x80, 0x87, 0xff]), 0, 0]].concat();
    if file[10] & 0x80 > 0 {
        file.extend(vec![7; 3 << ((file[10] & 7) + 1)]);
    }
    for _ in 0..c.below(4) {
        let label = c.one(&[0xf9, 0xfe, 0xff, 0x01]);
        file.extend([&[0x21, label][..], &blocks(&c.noise(600))].concat());
    }
    let frame = [
        c.mostly(0) as u16,
        c.mostly(0) as u16,
        c.mostly(width.into()) as u16,
        c.mostly(height.into()) as u16,
    ];
    file.push(0x2c);
    file.extend(frame.map(u16::to_le_bytes).concat());
    file.extend([c.one(&[0, 0x40, 0x80, 0x87])]);
    if file[file.len() - 1] & 0x80 > 0 {
        let colours = 3 << ((file[file.len() - 1] & 7) + 1);
        file.extend(vec![9; colours]);
    }
    file.push(c.mostly(8) as u8);
    file.extend(blocks(&c.noise(3_000)));
    file.push(0x3b);
    file
}

fn bmp(c: &mut Choices<'_>) -> Vec<u8> {
    let bits = c.one(&[1_u16, 4, 8, 16, 24, 32, 2]);
    let compression = c.one(&[0, 0, 1, 2, 3, 4, 6]);
    let head = c.one(&[12, 40, 40, 40, 52, 56, 108, 124]);
    let mut header = c.mostly(head).to_le_bytes().to_vec();
    let (width, height) = (c.side(), c.side());
    if head == 12 {
        header.extend([width as u16, height as u16, 1, bits].map(u16::to_le_bytes).concat());
    } else {
        let height = if c.byte().is_multiple_of(4) { height.wrapping_neg() } else { height };
        header.extend([width, height].map(u32::to_le_bytes).concat());
        header.extend([1, bits].map(u16::to_le_bytes).concat());
        header.extend(
            [compression, 0, 0, 0, c.mostly(3), c.mostly(0)].map(u32::to_le_bytes).concat(),
        );
        header.extend(c.noise(90));
    }
    let start = c.mostly(14 + header.len() as u32);
    let file = [&b"BM"[..], &[0; 8], &start.to_le_bytes(), &header].concat();
    [file, c.noise(4_000)].concat()
}
