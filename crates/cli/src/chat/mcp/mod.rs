//! Servers of tools by the Model Context Protocol over standard input and output.
//!
//! The protocol is JSON-RPC 2.0, one message a line (modelcontextprotocol.io, revision 2025-11-25).
//! A chat needs its handshake, the list of tools and their calls. A server is a program of the
//! user's choice whose answers are nevertheless bounded: lines, times, and numbers of tools.

mod pipe;
mod words;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use pelton::chat::{image_part, is_tool_name};
use serde_json::{Map, Value, json};

use self::{pipe::Pipe, words::words};

/// The revision that is offered.
const REVISION: &str = "2025-11-25";
/// The revisions whose messages are understood.
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", REVISION];
/// The most tools of a server.
const TOOLS_MAX: usize = 256;
/// The most bytes of the definition of a tool.
const TOOL_BYTES_MAX: usize = 64 << 10;
/// Bytes of the text of a result that the model is given.
const RESULT_MAX: usize = 32 << 10;
/// How often the wait for a message looks whether it is to end.
const TICK: Duration = Duration::from_millis(20);

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    command: String,
    pipe: Pipe,
    timeout: Duration,
    /// The number of the last request.
    last: u64,
    /// The tools, as chat templates and parsers have them.
    pub(crate) tools: Vec<Value>,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Its text.
    pub(crate) text: String,
    /// The parts of its pictures.
    pub(crate) images: Vec<Map<String, Value>>,
    /// Whether the tool says that it failed.
    pub(crate) failed: bool,
}

impl Server {
    /// Starts a server and asks for its tools. Each answer has to come within `timeout`.
    ///
    /// # Errors
    /// If it cannot be started or does not answer as the protocol demands.
    pub(crate) fn start(command: &str, timeout: Duration) -> Result<Self> {
        let pipe = Pipe::start(&words(command)?)?;
        let command = command.to_owned();
        let mut server = Self { command, pipe, timeout, last: 0, tools: Vec::new() };
        server.shake_hands().and_then(|()| server.list()).with_context(|| server.name())?;
        Ok(server)
    }

    fn name(&self) -> String {
        format!("the MCP server {:?}", self.command)
    }

    fn shake_hands(&mut self) -> Result<()> {
        let params = json!({
            "protocolVersion": REVISION,
            "capabilities": {},
            "clientInfo": {"name": "pelton", "version": env!("CARGO_PKG_VERSION")},
        });
        let result = self.request("initialize", params, &|| false)?;
        let revision = result["protocolVersion"].as_str().unwrap_or_default();
        if !REVISIONS.contains(&revision) {
            let shown: String = revision.chars().take(40).collect();
            bail!("has the revision {shown:?} of the protocol, expected {}", REVISIONS.join(", "));
        }
        self.pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    }

    /// Asks for the tools, page by page.
    fn list(&mut self) -> Result<()> {
        let mut params = json!({});
        loop {
            let result = self.request("tools/list", params, &|| false)?;
            let Value::Array(page) = &result["tools"] else {
                bail!("answers a request for its tools without a list of them");
            };
            for tool in page {
                self.tools.push(definition(tool)?);
            }
            if self.tools.len() > TOOLS_MAX {
                bail!("has more than {TOOLS_MAX} tools");
            }
            match result["nextCursor"].as_str() {
                // a page without tools would not bring the end nearer
                Some(cursor) if !page.is_empty() => params = json!({"cursor": cursor}),
                _ => return Ok(()),
            }
        }
    }

    /// Calls a tool, and waits for its result until `stopped` says so.
    ///
    /// # Errors
    /// If the server refuses the call, does not answer in time, or the wait was stopped.
    pub(crate) fn call(
        &mut self,
        tool: &str,
        arguments: Value,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Outcome> {
        let params = json!({"name": tool, "arguments": arguments});
        let result = self.request("tools/call", params, stopped).with_context(|| self.name())?;
        Ok(Outcome {
            text: text(&result),
            images: images(&result),
            failed: result["isError"] == true,
        })
    }

    /// Sends a request and waits for its result.
    fn request(
        &mut self,
        method: &str,
        params: Value,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Value> {
        self.last += 1;
        let id = self.last;
        self.pipe.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let start = Instant::now();
        while start.elapsed() < self.timeout {
            if stopped() {
                self.cancel(id, "the user stopped it");
                bail!("the call was stopped");
            }
            let Some(mut message) = self.pipe.receive(TICK)? else { continue };
            if message["method"].is_string() {
                self.answer(&message);
            } else if message["id"] == id {
                if let Some(error) = message.get("error") {
                    let reason = error["message"].as_str().unwrap_or("without a reason");
                    bail!("refuses {method}: {}", reason.chars().take(500).collect::<String>());
                }
                return Ok(message["result"].take());
            }
        }
        self.cancel(id, "it takes too long");
        bail!("does not answer {method} within {} s", self.timeout.as_secs_f64())
    }

    fn cancel(&self, id: u64, reason: &str) {
        let params = json!({"requestId": id, "reason": reason});
        let message =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        // a server that does not read cannot be told
        let _ = self.pipe.send(&message);
    }

    /// Answers a request of the server: a ping, or one that was not offered.
    fn answer(&self, message: &Value) {
        let Some(id) = message.get("id") else { return };
        let answer = match message["method"].as_str() {
            Some("ping") => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
            _ => {
                let error =
                    json!({"code": -32601, "message": "the client does not have this method"});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        // a server that does not read waits in vain
        let _ = self.pipe.send(&answer);
    }
}

/// A tool as templates and parsers have it.
fn definition(tool: &Value) -> Result<Value> {
    let name = tool["name"].as_str().unwrap_or_default();
    if !is_tool_name(name) {
        let shown: String = name.chars().take(100).collect();
        bail!("has a tool {shown:?}, expected a name of up to 128 letters, digits and _ - . : /");
    }
    let schema = match &tool["inputSchema"] {
        Value::Null => json!({"type": "object"}),
        schema @ Value::Object(_) => schema.clone(),
        _ => bail!("has a tool {name:?} whose schema is no object"),
    };
    let description = tool["description"].as_str().unwrap_or_default();
    let function = json!({"name": name, "description": description, "parameters": schema});
    let definition = json!({"type": "function", "function": function});
    let bytes = definition.to_string().len();
    if bytes > TOOL_BYTES_MAX {
        bail!("has a tool {name:?} of {bytes} bytes, expected at most {TOOL_BYTES_MAX}");
    }
    Ok(definition)
}

/// The pictures of a result.
fn images(result: &Value) -> Vec<Map<String, Value>> {
    let parts = result["content"].as_array().map_or(&[][..], Vec::as_slice);
    let sources = parts.iter().filter(|part| part["type"] == "image");
    sources.filter_map(|part| part["data"].as_str()).map(image_part).collect()
}

/// The text of a result: its texts, and the kinds of its other parts.
fn text(result: &Value) -> String {
    let parts = result["content"].as_array().map_or(&[][..], Vec::as_slice);
    let part = |part: &Value| -> String {
        let resource = &part["resource"];
        let texts = [&part["text"], &resource["text"], &part["uri"], &resource["uri"]];
        match texts.iter().find_map(|text| text.as_str()) {
            Some(text) => text.to_owned(),
            None => format!("[{}]", part["type"].as_str().unwrap_or("unknown part")),
        }
    };
    let mut text = parts.iter().map(part).collect::<Vec<_>>().join("\n");
    if parts.is_empty() && !result["structuredContent"].is_null() {
        text = result["structuredContent"].to_string();
    }
    if text.len() > RESULT_MAX {
        let whole = text.len();
        text.truncate(text.floor_char_boundary(RESULT_MAX));
        text += &format!("\n[cut: {RESULT_MAX} of {whole} bytes]");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_and_results() {
        let tool = json!({"name": "add", "inputSchema": {"type": "object"}, "title": "Add"});
        let expected = json!({"type": "function", "function": {
            "name": "add", "description": "", "parameters": {"type": "object"}}});
        assert_eq!(definition(&tool).unwrap(), expected);
        for (bad, word) in [
            (json!({}), "name"),
            (json!({"name": "a b"}), "a b"),
            (json!({"name": "a", "inputSchema": 1}), "schema"),
            (json!({"name": "a", "description": "x".repeat(1 << 17)}), "bytes"),
        ] {
            let said = definition(&bad).unwrap_err().to_string();
            assert!(said.contains(word), "{said}");
        }
        let parts = json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "a:b", "text": "two"}},
            {"type": "resource_link", "uri": "c:d"},
        ]});
        assert_eq!(text(&parts), "one\n[image]\ntwo\nc:d");
        assert_eq!(images(&parts), [image_part("")]);
        assert_eq!(text(&json!({"structuredContent": {"a": 1}})), "{\"a\":1}");
        assert_eq!(text(&json!({})), "");
        let long = text(&json!({"content": [{"type": "text", "text": "é".repeat(1 << 16)}]}));
        assert!(long.len() < RESULT_MAX + 100 && long.ends_with("of 131072 bytes]"));
    }
}
