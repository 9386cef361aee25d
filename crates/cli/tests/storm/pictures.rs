//! Hostile pictures: each is refused in one sentence, before it costs time or memory.

use std::time::Duration;

use pelton::chat::{image_file, image_part};
use serde_json::{Map, Value, json};

use crate::{
    absurd_pictures::{chunk, extended, png_head, webp_of, zeros},
    client::Connection,
    server::Server,
};

const MODEL: &str = "built-in-vision";
/// The time of all cores for a refusal, of the least of several tries. A tick has 10 ms.
const TIME: Duration = Duration::from_millis(100);
/// The memory of a refusal.
const MEMORY: usize = 64 << 20;
/// The memory of a picture of 64 million pixels, as docs/hostile-input.md states it.
const GREATEST: usize = 256 << 20;

type Part = Map<String, Value>;

fn png(width: u32, height: u32, kind: [u8; 3], data: &[u8]) -> Vec<u8> {
    [png_head(width, height, kind), chunk(b"IDAT", data), chunk(b"IEND", b"")].concat()
}

fn gif(width: u16, height: u16) -> Vec<u8> {
    let sides = [width.to_le_bytes(), height.to_le_bytes()].concat();
    let head = [b"GIF89a", &sides[..], b"\x80\0\0\0\0\0\0\0\0"].concat();
    [&head[..], b",\0\0\0\0", &sides[..], b"\0\x02\x02\x44\x01\0;"].concat()
}

/// A source with another declared type.
fn declared(kind: &str, file: &[u8]) -> Part {
    let part = image_file(file);
    let url = part["image_url"]["url"].as_str().unwrap();
    image_part(url.replace("image/png", kind))
}

fn address(url: &str) -> Part {
    image_part(url)
}

/// Hostile contents of a message, and a part of the sentence that refuses each.
fn hostile() -> Vec<(&'static str, Vec<Part>, &'static str)> {
    let file = |bytes: Vec<u8>| vec![image_file(&bytes)];
    let rgb = [8, 2, 0];
    let small = png(16, 16, rgb, &zeros(16 * 49));
    vec![
        ("PNG of 65,535²", file(png(65_535, 65_535, rgb, &zeros(999))), "65535 x 65535"),
        ("PNG of 16,384²", file(png(16_384, 16_384, rgb, &zeros(999))), "64000000"),
        ("WebP of 65,535²", file(webp_of(&[extended(0, 65_535, 65_535)])), "65535 x 65535"),
        ("GIF of 65,535²", file(gif(65_535, 65_535)), "65535 x 65535"),
        ("no width", file(png(0, 5, rgb, &zeros(9))), "0 x 5"),
        ("no height", file(gif(5, 0)), "5 x 0"),
        ("over 200:1", file(png(16_000, 2, rgb, &zeros(999))), "200 times"),
        ("half a header", file(small[..20].to_vec()), "damaged"),
        ("half of the data", file(small[..small.len() - 20].to_vec()), "damaged"),
        ("fewer pixels", file(png(96, 96, rgb, &zeros(100))), "damaged"),
        (
            "SVG",
            vec![declared("image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg'/>")],
            "SVG",
        ),
        ("SVG as PNG", file(b"<svg xmlns='http://www.w3.org/2000/svg'/>".to_vec()), "SVG"),
        ("PDF as JPEG", vec![declared("image/jpeg", b"%PDF-1.7 x")], "PDF"),
        ("HEIC", vec![declared("image/heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic")], "HEIC"),
        ("text", vec![declared("text/plain", b"a picture")], "known format"),
        ("nothing", vec![image_part("data:image/png;base64,")], "empty"),
        ("17 pictures", vec![image_file(&small); 17], "17 pictures"),
        ("10,000 pictures", vec![image_part("AAAA"); 10_000], "10000 pictures"),
        ("metadata of a cloud", vec![address("http://169.254.169.254/latest")], "https://"),
        ("a private host", vec![address("https://10.0.0.1/a.png")], "without public addresses"),
        ("this host", vec![address("https://localhost/a.png")], "without public addresses"),
        ("another host", vec![address("https://example.com/a.png")], "not allowed"),
        ("a file", vec![address("file:///etc/passwd")], "data: URL"),
    ]
}

/// The status and the message of a response, the time of all cores, and the growth of memory.
fn ask(server: &Server, content: &[Part]) -> (u16, String, Duration, usize) {
    let body = json!({"model": MODEL, "max_tokens": 3, "temperature": 0,
                      "messages": [{"role": "user", "content": content}]});
    let body = body.to_string();
    server.forget_peak();
    let (before, begun) = (server.memory(), server.cpu_time());
    let mut connection = Connection::open(&server.address).unwrap();
    let (status, body) =
        connection.request("POST", "/v1/chat/completions", body.as_bytes()).unwrap();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    let message = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
    (status, message, server.cpu_time() - begun, server.peak().saturating_sub(before))
}

fn start() -> Server {
    let hosts = "localhost,127.0.0.1,10.0.0.1,169.254.169.254";
    Server::with(&[MODEL, "--media-hosts", hosts], &[])
}

#[test]
fn hostile_pictures_are_refused_at_once() {
    let server = start();
    // the first request of all loads more
    let dot = image_file(&png(16, 16, [8, 2, 0], &zeros(16 * 49)));
    assert_eq!(ask(&server, std::slice::from_ref(&dot)).0, 200);
    for (name, content, word) in hostile() {
        let mut least = (Duration::MAX, usize::MAX);
        for _ in 0..5 {
            let (status, message, time, memory) = ask(&server, &content);
            assert_eq!(status, 400, "{name}: {message}");
            let own = message.split("its decoder says").next().unwrap_or_default();
            let ends = own.matches(". ").count();
            assert!(
                message.contains(word) && !message.contains('\n') && ends == 0,
                "{name}: {message}"
            );
            least = (least.0.min(time), least.1.min(memory));
        }
        println!("{name}: {:?}, {} KiB", least.0, least.1 >> 10);
        assert!(least.0 <= TIME && least.1 <= MEMORY, "{name}: {least:?}");
    }
    assert_eq!(ask(&server, &[dot]).0, 200);
}

/// The greatest pictures are answered, within the memory of their pixels.
#[test]
fn great_pictures_have_their_budget() {
    let server = start();
    let rgb = [8, 2, 0];
    for (name, file) in [
        ("8,000²", png(8_000, 8_000, rgb, &zeros(8_000 * 24_001))),
        ("200:1", png(16_000, 80, rgb, &zeros(80 * 48_001))),
        ("1²", png(1, 1, rgb, &zeros(4))),
    ] {
        let (status, message, time, memory) = ask(&server, &[image_file(&file)]);
        println!("{name}: {status}, {time:?}, {} KiB", memory >> 10);
        assert_eq!(status, 200, "{name}: {message}");
        assert!(memory <= GREATEST, "{name}: {memory}");
    }
}
