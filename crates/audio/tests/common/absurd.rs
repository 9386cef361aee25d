//! Files that follow their formats and state absurd values: sizes, counts and tables that mutation
//! of bytes hardly finds. Choices come from bytes, those of a fuzzer or of a random generator.

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
            1 => self.one(&[0, 1, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_fffe, u32::MAX]),
            2 => 1 << (self.byte() % 32),
            _ => u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }

    /// A value that fits, mostly, or an absurd one.
    fn mostly(&mut self, fits: u32) -> u32 {
        if self.byte().is_multiple_of(8) { self.number() } else { fits }
    }

    fn noise(&mut self, most: usize) -> Vec<u8> {
        let count = self.below(most);
        (0..count).map(|i| self.byte() ^ (i * 31) as u8).collect()
    }
}

/// A file of any of the kinds.
pub(crate) fn file(choices: &mut Choices<'_>) -> Vec<u8> {
    match choices.byte() % 8 {
        0 => wave(choices),
        1 => aiff(choices),
        2 => flac(choices),
        3 => vorbis(choices),
        4 => opus(choices),
        5 => matroska(choices),
        6 => mp4(choices, false),
        _ => mp4(choices, true),
    }
}

fn wave(c: &mut Choices<'_>) -> Vec<u8> {
    let mut chunks = Vec::new();
    for _ in 0..c.below(6) {
        let name = c.one(&[b"LIST", b"fact", b"junk", b"ds64", b"fmt "]);
        let content = c.noise(60);
        let size = c.mostly(content.len() as u32);
        chunks.extend([&name[..], &size.to_le_bytes(), &content].concat());
    }
    let (tag, bits) =
        c.one(&[(1_u16, 16_u16), (1, 8), (1, 24), (3, 32), (6, 8), (2, 4), (0x11, 4)]);
    let channels = c.mostly(1) as u16;
    let block = c.mostly(u32::from(bits / 8).max(36)) as u16;
    let mut format = [tag.to_le_bytes(), channels.to_le_bytes()].concat();
    format.extend(c.mostly(16_000).to_le_bytes());
    format.extend([0; 4]);
    format.extend([block.to_le_bytes(), bits.to_le_bytes()].concat());
    if tag == 2 || tag == 0x11 {
        format.extend(if tag == 2 { vec![32, 0] } else { vec![2, 0] });
        format.extend(vec![0; if tag == 2 { 32 } else { 2 }]);
    }
    chunks.extend([&b"fmt "[..], &(format.len() as u32).to_le_bytes(), &format].concat());
    let data = c.noise(3_000);
    let size = c.mostly(data.len() as u32);
    chunks.extend([&b"data"[..], &size.to_le_bytes(), &data].concat());
    let name = c.one(&[b"RIFF", b"RIFF", b"RF64", b"BW64"]);
    let size = c.mostly(chunks.len() as u32 + 4);
    [&name[..], &size.to_le_bytes(), b"WAVE", &chunks].concat()
}

fn aiff(c: &mut Choices<'_>) -> Vec<u8> {
    let mut chunks = Vec::new();
    let compressed = c.byte().is_multiple_of(2);
    let mut common = (c.mostly(1) as u16).to_be_bytes().to_vec();
    common.extend(c.number().to_be_bytes());
    common.extend((c.mostly(16) as u16).to_be_bytes());
    common.extend([0x40, 0x0c, 0xfa, 0, 0, 0, 0, 0, 0, 0]);
    if compressed {
        common.extend(*c.one(&[b"sowt", b"NONE", b"fl32", b"ulaw", b"in24"]));
        common.extend([0, 0]);
    }
    for _ in 0..c.below(5) {
        let name = c.one(&[b"MARK", b"COMT", b"ID3 ", b"NAME", b"COMM"]);
        let content = c.noise(40);
        let size = c.mostly(content.len() as u32);
        chunks.extend([&name[..], &size.to_be_bytes(), &content].concat());
    }
    chunks.extend([&b"COMM"[..], &(common.len() as u32).to_be_bytes(), &common].concat());
    let data = [vec![0; 8], c.noise(2_000)].concat();
    let size = c.mostly(data.len() as u32);
    chunks.extend([&b"SSND"[..], &size.to_be_bytes(), &data].concat());
    let size = c.mostly(chunks.len() as u32 + 4);
    let form = if compressed { b"AIFC" } else { b"AIFF" };
    [&b"FORM"[..], &size.to_be_bytes(), form, &chunks].concat()
}

/// The block of a stream's format: 16 bits, one channel, 1,000 samples a second and more.
fn stream_info(c: &mut Choices<'_>) -> Vec<u8> {
    let (least, most) = (c.mostly(4_096) as u16, c.mostly(0xffff) as u16);
    let rate = c.one(&[1_000_u64, 16_000, 192_000]);
    let fields = rate << 44 | u64::from(c.byte() % 8) << 41 | 15 << 36 | u64::from(c.number());
    let sizes = [least.to_be_bytes(), most.to_be_bytes()].concat();
    [&sizes[..], &[0; 6], &fields.to_be_bytes(), &[0; 16]].concat()
}

fn flac(c: &mut Choices<'_>) -> Vec<u8> {
    let mut bytes = b"fLaC\0\0\0\x22".to_vec();
    bytes.extend(stream_info(c));
    for _ in 0..c.below(6) {
        let content = c.noise(60);
        let size = c.mostly(content.len() as u32).to_be_bytes();
        bytes.extend([&[c.byte() & 0x7f][..], &size[1..], &content].concat());
    }
    bytes.extend([0x81, 0, 0, 0]);
    // constant frames of 65,535 samples
    for frame in 0..c.below(40) {
        let mut head = vec![0xff, 0xf8, 0x74, 0x08, frame as u8, 0xff, 0xfe];
        head.push(head.iter().fold(0, |sum, byte| crc8(sum, *byte)));
        head.extend([0, c.byte(), 0]);
        let sum = head.iter().fold(0, |sum, byte| crc16(sum, *byte));
        head.extend(sum.to_be_bytes());
        bytes.extend(head);
    }
    bytes
}

fn crc8(sum: u8, byte: u8) -> u8 {
    (0..8).fold(sum ^ byte, |sum, _| sum << 1 ^ if sum >> 7 == 1 { 0x07 } else { 0 })
}

fn crc16(sum: u16, byte: u8) -> u16 {
    let first = sum ^ u16::from(byte) << 8;
    (0..8).fold(first, |sum, _| sum << 1 ^ if sum >> 15 == 1 { 0x8005 } else { 0 })
}

/// A page of Ogg with whole packets.
pub(crate) fn page(sequence: u32, flags: u8, granule: u64, packets: &[&[u8]]) -> Vec<u8> {
    let mut page = b"OggS\0".to_vec();
    page.push(flags);
    page.extend(granule.to_le_bytes());
    page.extend([1_u32, sequence, 0].map(u32::to_le_bytes).concat());
    let mut segments = Vec::new();
    for packet in packets {
        segments.extend(vec![255; packet.len() / 255]);
        segments.push((packet.len() % 255) as u8);
    }
    page.push(segments.len() as u8);
    page.extend(segments);
    page.extend(packets.concat());
    let sum = page.iter().fold(0_u32, |sum, byte| {
        let first = sum ^ u32::from(*byte) << 24;
        (0..8).fold(first, |sum, _| sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 })
    });
    page[22..26].copy_from_slice(&sum.to_le_bytes());
    page
}

/// Bits from the lowest one of each byte on.
#[derive(Default)]
struct Bits(Vec<u8>, usize);

impl Bits {
    fn push(&mut self, value: u32, width: usize) {
        for bit in 0..width {
            if self.1.is_multiple_of(8) {
                self.0.push(0);
            }
            let last = self.0.len() - 1;
            let bit = value.checked_shr(bit as u32).unwrap_or(0) & 1;
            self.0[last] |= (bit as u8) << (self.1 % 8);
            self.1 += 1;
        }
    }
}

/// A setup header of Vorbis with as many books of 131,072 vectors.
pub(crate) fn setup(books: u32, dimensions: u32, length: u32) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.push(books - 1, 8);
    for _ in 0..books {
        let entries = 1 << length;
        for (value, width) in [(0x56_4342, 24), (dimensions, 16), (entries, 24), (1, 1)] {
            bits.push(value, width);
        }
        // all codes have one length
        bits.push(length - 1, 5);
        bits.push(entries, length as usize + 1);
        for (value, width) in [(1, 4), (0, 32), (0, 32), (0, 4), (0, 1), (0, 1)] {
            bits.push(value, width);
        }
        if dimensions > length {
            continue;
        }
        // more values than one where the root is greater
        let root = f64::from(entries).powf(1.0 / f64::from(dimensions)) as u32;
        bits.push(0, (root.max(1) - 1) as usize);
    }
    for (value, width) in [
        (0, 6),
        (0, 16),
        (0, 6),
        (1, 16),
        (0, 5),
        (0, 2),
        (8, 4),
        (0, 6),
        (0, 16),
        (0, 24),
        (0, 24),
        (31, 24),
        (0, 6),
        (0, 8),
        (0, 3),
        (0, 1),
        (0, 6),
        (0, 16),
        (0, 1),
        (0, 1),
        (0, 2),
        (0, 24),
        (0, 6),
        (0, 1),
        (0, 32),
        (0, 8),
        (1, 1),
    ] {
        bits.push(value, width);
    }
    [b"\x05vorbis", &bits.0[..]].concat()
}

/// The identification header of Vorbis.
pub(crate) fn ident(channels: u8) -> Vec<u8> {
    let mut ident = b"\x01vorbis\0\0\0\0".to_vec();
    ident.push(channels);
    ident.extend(16_000_u32.to_le_bytes());
    ident.extend([0; 12]);
    ident.extend([0xb8, 1]);
    ident
}

/// A file of Vorbis with a setup header.
pub(crate) fn vorbis_with(channels: u8, setup: &[u8]) -> Vec<u8> {
    let comments = b"\x03vorbis\x01\0\0\0x\0\0\0\0\x01";
    let mut bytes = page(0, 2, 0, &[&ident(channels)]);
    bytes.extend(page(1, 0, 0, &[comments, setup]));
    for i in 0..20 {
        bytes.extend(page(2 + i, 0, 128 * u64::from(i + 1), &[&[0, 0]]));
    }
    bytes
}

fn vorbis(c: &mut Choices<'_>) -> Vec<u8> {
    let books = 1 + c.below(64) as u32;
    let (dimensions, length) = (1 + c.below(32) as u32, 1 + c.below(17) as u32);
    let mut setup = setup(books, dimensions, length);
    for _ in 0..c.below(4) {
        let place = c.below(setup.len());
        setup[place] = c.byte();
    }
    vorbis_with(c.one(&[1, 2, 8, 32, 255]), &setup)
}

fn opus(c: &mut Choices<'_>) -> Vec<u8> {
    let family = c.one(&[0, 0, 0, 1, 1, 255]);
    let channels = if family == 0 { c.one(&[1, 2]) } else { c.one(&[1, 3, 6, 8, 64, 255]) };
    let mut head = b"OpusHead\x01".to_vec();
    head.push(channels);
    head.extend((c.mostly(312) as u16).to_le_bytes());
    head.extend(48_000_u32.to_le_bytes());
    head.extend((c.mostly(0) as u16).to_le_bytes());
    head.push(family);
    head.extend(c.noise(80));
    let mut bytes = page(0, 2, 0, &[&head]);
    bytes.extend(page(1, 0, 0, &[b"OpusTags"]));
    for i in 0..c.below(30) as u32 {
        let mut packets = Vec::new();
        for _ in 0..c.below(6) {
            packets.push(c.noise(120));
        }
        let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        let granule = u64::from(c.mostly(960 * (i + 1)));
        let flags = c.one(&[0, 0, 0, 0, 1, 4]);
        bytes.extend(page(2 + i, flags, granule, &packets));
    }
    bytes
}

/// An element of Matroska.
fn element(id: &[u8], content: &[u8]) -> Vec<u8> {
    let size = (content.len() as u64 | 1 << 56).to_be_bytes();
    [id, &size, content].concat()
}

fn matroska(c: &mut Choices<'_>) -> Vec<u8> {
    let (codec, private) = match c.byte() % 4 {
        0 => {
            let (books, dimensions) = (1 + c.below(64) as u32, 1 + c.below(32) as u32);
            let setup = setup(books, dimensions, 1 + c.below(17) as u32);
            let private = [&[2, 30, 1][..], &ident(1), &[3], &setup].concat();
            ("A_VORBIS", private)
        }
        1 => ("A_OPUS", [&b"OpusHead\x01\x02\0\0\0\0\0\0\0\0"[..], &[c.byte()]].concat()),
        2 => ("A_FLAC", [&b"fLaC\0\0\0\x22"[..], &stream_info(c)].concat()),
        _ => ("A_PCM/INT/LIT", Vec::new()),
    };
    let audio = [
        element(&[0xb5], &16_000_f32.to_be_bytes()),
        element(&[0x9f], &[c.mostly(1) as u8]),
        element(&[0x62, 0x64], &[16]),
    ];
    let track = [
        element(&[0xd7], &[1]),
        element(&[0x73, 0xc5], &[1]),
        element(&[0x83], &[2]),
        element(&[0x86], codec.as_bytes()),
        element(&[0x63, 0xa2], &private),
        element(&[0xe1], &audio.concat()),
    ];
    let tracks = element(&[0xae], &track.concat()).repeat(1 + c.below(400) / 390 * 300);
    let mut segment =
        element(&[0x15, 0x49, 0xa9, 0x66], &[0x2a, 0xd7, 0xb1, 0x83, 0x0f, 0x42, 0x40]);
    for _ in 0..c.below(5) {
        let id = c.one(&[0x114d_9b74_u32, 0x1254_c367, 0x1043_a770, 0x1941_a469, 0x1c53_bb6b]);
        let content = c.noise(60);
        segment.extend(element(&id.to_be_bytes(), &content));
    }
    segment.extend(element(&[0x16, 0x54, 0xae, 0x6b], &tracks));
    let mut cluster = element(&[0xe7], &[0]);
    for _ in 0..c.below(20) {
        let flags = c.one(&[0x80, 0x82, 0x84, 0x86]);
        let block = [&[0x80 | c.mostly(1) as u8, 0, 0, flags][..], &c.noise(200)].concat();
        cluster.extend(element(&[0xa3], &block));
    }
    segment.extend(element(&[0x1f, 0x43, 0xb6, 0x75], &cluster));
    let header = element(&[0x42, 0x82], b"matroska");
    let mut bytes = element(&[0x1a, 0x45, 0xdf, 0xa3], &header);
    bytes.extend(element(&[0x18, 0x53, 0x80, 0x67], &segment));
    for _ in 0..c.below(3) {
        let place = c.below(bytes.len());
        bytes[place] = c.byte();
    }
    bytes
}

/// A box of MP4.
pub(crate) fn atom(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32 + 8).to_be_bytes()[..], kind, content].concat()
}

/// Numbers of 32 bits, the highest byte first.
pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A track of PCM, or of another codec.
pub(crate) fn track(id: u32, codec: &[u8; 4], tables: &[u8]) -> Vec<u8> {
    let entry =
        [&[0; 6][..], &[0, 1], &[0; 8], &[0, 1, 0, 16, 0, 0, 0, 0], &words(&[16_000 << 16])];
    let description = [words(&[0, 1]), atom(codec, &entry.concat())].concat();
    let table = [atom(b"stsd", &description), tables.to_vec()].concat();
    let data =
        atom(b"dinf", &atom(b"dref", &[words(&[0, 1]), atom(b"url ", &words(&[1]))].concat()));
    let information = [atom(b"smhd", &words(&[0, 0])), data, atom(b"stbl", &table)].concat();
    let handler = [&words(&[0, 0])[..], b"soun", &[0; 14]].concat();
    let media = [
        atom(b"mdhd", &words(&[0, 0, 0, 16_000, 0, 0x55c4_0000])),
        atom(b"hdlr", &handler),
        atom(b"minf", &information),
    ];
    let header = [words(&[7, 0, 0, id, 0, 0]), vec![0; 60]].concat();
    atom(b"trak", &[atom(b"tkhd", &header), atom(b"mdia", &media.concat())].concat())
}

/// A movie of tracks; one with `fragments` has the defaults of that many.
pub(crate) fn movie(tracks: &[Vec<u8>], fragments: u32, size: u32) -> Vec<u8> {
    let header = [words(&[0, 0, 0, 16_000, 0]), vec![0; 80]].concat();
    let mut movie = [atom(b"mvhd", &header), tracks.concat()].concat();
    if fragments > 0 {
        let defaults = (1..=fragments).map(|id| atom(b"trex", &words(&[0, id, 1, 1, size, 0])));
        movie.extend(atom(b"mvex", &defaults.collect::<Vec<_>>().concat()));
    }
    [atom(b"ftyp", b"isom\0\0\0\0isomiso5"), atom(b"moov", &movie)].concat()
}

/// The tables of a track in a file without fragments.
pub(crate) fn tables(times: &[u32], sizes: &[u32], chunks: &[u32], offsets: &[u32]) -> Vec<u8> {
    let table = |kind, fields: &[u32]| atom(kind, &words(fields));
    [table(b"stts", times), table(b"stsz", sizes), table(b"stsc", chunks), table(b"stco", offsets)]
        .concat()
}

fn mp4(c: &mut Choices<'_>, is_fragmented: bool) -> Vec<u8> {
    let count = 1 + c.below(3) as u32;
    let mut tracks = Vec::new();
    for id in 1..=count {
        let codec = c.one(&[b"sowt", b"twos", b"raw ", b"Opus", b"alac", b"ulaw"]);
        let tables = if is_fragmented {
            tables(&[0, 0], &[0, 0, 0], &[0, 0], &[0, 0])
        } else {
            tables(
                &[0, c.mostly(1), c.mostly(100), c.mostly(1)],
                &[0, c.mostly(2), c.mostly(100)],
                &[0, c.mostly(1), c.mostly(1), c.mostly(100), 1],
                &[0, c.mostly(1), c.mostly(400)],
            )
        };
        tracks.push(track(id, codec, &tables));
    }
    let mut bytes = movie(&tracks, if is_fragmented { count } else { 0 }, c.mostly(2));
    for number in 0..if is_fragmented { c.below(20) as u32 } else { 0 } {
        let mut fragment = atom(b"mfhd", &words(&[0, number]));
        for _ in 0..c.below(3) {
            let header = words(&[0x2_0018, 1 + c.below(3) as u32, c.mostly(1), c.mostly(2)]);
            let mut runs = atom(b"tfhd", &header);
            for _ in 0..c.below(40) {
                let flags = c.one(&[0, 0, 1, 4, 0x100, 0x200, 0x300, 0xf00, 0x205]);
                let (count, content) = (c.mostly(8), c.noise(100));
                runs.extend(atom(b"trun", &[words(&[flags, count]), content].concat()));
            }
            fragment.extend(atom(b"traf", &runs));
        }
        bytes.extend(atom(b"moof", &fragment));
        bytes.extend(atom(b"mdat", &c.noise(300)));
    }
    let data = c.noise(2_000);
    bytes.extend(c.mostly(data.len() as u32 + 8).to_be_bytes());
    bytes.extend(b"mdat");
    bytes.extend(data);
    bytes
}
