//! Pictures in chats, up to the prompt that has them.

use std::time::{Duration, Instant};

use pelton::chat::{Chat, ChatTemplate, Message};
use pelton::{Error, ErrorKind, GenerateOptions, Prompt};
use serde_json::json;

use super::{PLAIN, model};

/// A picture of 37 x 53 pixels, and one with EXIF's fifth orientation.
const PNG: &[u8] = include_bytes!("../../../../image/tests/fixtures/pictures/rgb.png");
const JPEG: &[u8] = include_bytes!("../../../../image/tests/fixtures/pictures/exif_6.jpg");

/// The chat template of a model that would see.
fn seeing(model: &pelton::Model) -> ChatTemplate {
    model.chat_template_from(PLAIN).unwrap().with_images("<|image|>").unwrap()
}

#[test]
fn prompts_have_the_decoded_pictures() {
    let model = model();
    let template = seeing(&model);
    let mut chat = Chat::new(vec![Message::with_images("user", "What?", [PNG, JPEG])]);
    chat.messages.push(Message::new("assistant", "A dot."));
    chat.messages.push(Message::with_images("user", "Is <|image|> one?", [PNG]));
    let prompt = template.prompt(&chat).unwrap();
    let text = "<|begin|><|user|><|image|><|image|>What?<|end|><|assistant|>A dot.<|end|>\
                <|user|><|image|>Is <|image|> one?<|end|><|assistant|>";
    assert_eq!(prompt.text(), text);
    let images = prompt.prompt.images();
    let sizes: Vec<_> =
        images.iter().map(|one| (one.picture.width(), one.picture.height())).collect();
    assert!(sizes[0] == (37, 53) && sizes[2] == (37, 53) && sizes.len() == 3, "{sizes:?}");
    let numbers: Vec<_> = prompt.segments().iter().filter_map(|one| one.image).collect();
    assert_eq!(numbers, [0, 1, 2]);
    // a model that was loaded without its encoder answers no such prompt
    let error = model.generate(prompt.prompt, GenerateOptions::default()).unwrap_err();
    assert!(matches!(error, Error::NoVision) && error.to_string().contains("mmproj"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let own = model.chat_template().unwrap().prompt(&chat).unwrap_err().to_string();
    assert!(own.contains("mmproj"), "{own}");
    // its results of tools, which become messages of the user
    let tool = json!({"role": "tool", "content": [{"type": "text", "text": "done"},
                      {"type": "image", "data": "AAAA"}]});
    let mut chat =
        Chat::new(vec![Message::new("user", "Go."), serde_json::from_value(tool).unwrap()]);
    let error = template.prompt(&chat).unwrap_err().to_string();
    assert!(error.starts_with("picture 1 is not a picture of a known format"), "{error}");
    let content = json!([{"type": "text", "text": "done"}, chat_part(PNG)]);
    chat.messages[1] = serde_json::from_value(json!({"role": "tool", "content": content})).unwrap();
    let prompt = template.explaining_tools().prompt(&chat).unwrap();
    assert!(prompt.text().contains("<|image|><tool_response>\ndone\n</tool_response>"));
    assert_eq!(prompt.prompt.images().len(), 1);
}

/// The JSON of a picture's part.
fn chat_part(file: &[u8]) -> serde_json::Value {
    json!(Message::with_images("user", "", [file]).images().next().unwrap())
}

#[test]
fn texts_with_markers() {
    let model = model();
    let template = seeing(&model);
    let images = Message::with_images("user", "", [PNG, JPEG]);
    let prompt = template.marked("a <m> b<m>", "<m>", &images).unwrap();
    let Prompt::Segments { segments, images: pictures } = &prompt else { panic!("{prompt:?}") };
    let texts: Vec<_> = segments.iter().map(|one| (one.text.as_str(), one.image)).collect();
    assert_eq!(
        texts,
        [
            ("<|begin|>", None),
            ("a ", None),
            ("<|image|>", Some(0)),
            (" b", None),
            ("<|image|>", Some(1))
        ]
    );
    assert_eq!(pictures.len(), 2);
    let error = template.marked("a <m>", "<m>", &images).unwrap_err().to_string();
    assert!(error.contains("1 markers \"<m>\", expected one for each of 2 pictures"), "{error}");
}

/// Files that are no pictures, and pictures beyond the limits, are refused at once.
#[test]
fn hostile_files() {
    let template = seeing(&model());
    // a header of 16000 x 16000 pixels
    let mut bomb = PNG.to_vec();
    for at in [16, 20] {
        bomb[at..at + 4].copy_from_slice(&16_000_u32.to_be_bytes());
    }
    let heic = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic";
    let avif = b"\0\0\0\x18ftypavif\0\0\0\0mif1avif";
    for (file, word) in [
        (&heic[..], "HEIC"),
        (avif, "AVIF"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"%PDF-1.7", "PDF"),
        (b"hello", "known format"),
        (&PNG[..60], "damaged"),
        (&bomb, "picture 1"),
    ] {
        let begun = Instant::now();
        let error = template.prompt(&Chat::new(vec![Message::with_images("user", "?", [file])]));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(word) && !error.contains('\n'), "{word}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(1), "{word}: {:?}", begun.elapsed());
    }
}
