//! The tools of a chat: definitions of a file, and those of MCP servers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use pelton::chat::{ToolChoice, is_tool_name};
use serde_json::{Map, Value};

use super::mcp::{Outcome, Server};

/// The most rounds of calls in one answer.
pub(crate) const ROUNDS_MAX: usize = 16;

/// Where tools come from.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ToolArgs {
    /// Read a list of tools from a JSON file. You write the result of each call, on a terminal or
    /// as the next line of standard input
    #[arg(long, value_name = "FILE")]
    tools: Option<String>,
    /// Start a server of tools by this command, and speak the Model Context Protocol with it over
    /// standard input and output; may be given several times
    #[arg(long, value_name = "COMMAND")]
    mcp: Vec<String>,
    /// Wait at most this long for each answer of an MCP server
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    mcp_timeout: f64,
    /// Let the model call tools: auto, none, required, or the name of one. A demanded call is in
    /// the first answer to each message
    #[arg(long, value_name = "CHOICE", default_value = "auto")]
    tool_choice: String,
    /// Call the tools of MCP servers without asking. Without a terminal and without this
    /// option none is called
    #[arg(long)]
    allow_calls: bool,
}

/// Who answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The user writes the result.
    User,
    /// An MCP server, by its index.
    Server(usize),
}

/// The tools of a chat.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    definitions: Vec<Value>,
    owners: BTreeMap<String, Owner>,
    servers: Vec<Server>,
    choice: ToolChoice,
    /// Tools that are called without a question.
    allowed: BTreeSet<String>,
    all_allowed: bool,
}

impl Tools {
    /// Reads the definitions and starts the servers.
    ///
    /// # Errors
    /// If a file or a server is not as it must be, or two tools have the same name.
    pub(crate) fn new(args: &ToolArgs) -> Result<Self> {
        let mut tools = Self { all_allowed: args.allow_calls, ..Self::default() };
        if let Some(file) = &args.tools {
            let text =
                fs::read_to_string(file).with_context(|| format!("{file} could not be read"))?;
            let json =
                serde_json::from_str(&text).with_context(|| format!("{file} is not JSON"))?;
            for tool in definitions(json).with_context(|| format!("the tools in {file}"))? {
                tools.add(tool, Owner::User)?;
            }
        }
        if !(args.mcp_timeout > 0.0 && args.mcp_timeout <= 86_400.0) {
            bail!("--mcp-timeout is {}, expected more than 0 and up to 86400", args.mcp_timeout);
        }
        for command in &args.mcp {
            let server = Server::start(command, Duration::from_secs_f64(args.mcp_timeout))?;
            for tool in &server.tools {
                tools.add(tool.clone(), Owner::Server(tools.servers.len()))?;
            }
            tools.servers.push(server);
        }
        tools.choice = match args.tool_choice.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            name => ToolChoice::Named(name.to_owned()),
        };
        match &tools.choice {
            ToolChoice::Required if tools.is_empty() => {
                bail!("--tool-choice demands a call, expected --tools or --mcp too")
            }
            ToolChoice::Named(name) if tools.owner(name).is_none() => bail!(
                "--tool-choice is {name:?}, expected auto, none, required or the name of a tool"
            ),
            _ => Ok(tools),
        }
    }

    fn add(&mut self, tool: Value, owner: Owner) -> Result<()> {
        let name = name(&tool).to_owned();
        if self.owners.insert(name.clone(), owner).is_some() {
            bail!("two tools have the name {name:?}, expected different names");
        }
        self.definitions.push(tool);
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.definitions.is_empty()
    }

    /// The definitions, for the template.
    pub(crate) fn definitions(&self) -> &[Value] {
        &self.definitions
    }

    /// Whether the first answer to a message calls tools.
    pub(crate) fn choice(&self) -> &ToolChoice {
        &self.choice
    }

    /// Who answers a call of a tool; `None` if there is no tool of that name.
    pub(crate) fn owner(&self, tool: &str) -> Option<Owner> {
        self.owners.get(tool).copied()
    }

    pub(crate) fn is_allowed(&self, tool: &str) -> bool {
        self.all_allowed || self.allowed.contains(tool)
    }

    /// From now on calls of a tool are not asked about.
    pub(crate) fn allow(&mut self, tool: &str) {
        self.allowed.insert(tool.to_owned());
    }

    /// Calls a tool of a server.
    ///
    /// # Errors
    /// As [`Server::call`].
    pub(crate) fn call(
        &mut self,
        server: usize,
        tool: &str,
        arguments: Map<String, Value>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Outcome> {
        let server = self.servers.get_mut(server).context("the server has ended")?;
        server.call(tool, Value::Object(arguments), stopped)
    }

    /// The tools, one a line.
    pub(crate) fn show(&self) -> String {
        let line = |tool: &Value| {
            let what = function(tool)["description"].as_str().unwrap_or_default();
            format!("  {:<20} {}", name(tool), what.lines().next().unwrap_or_default())
        };
        match self.is_empty() {
            true => "there are no tools; --tools and --mcp name some".to_owned(),
            false => self.definitions.iter().map(line).collect::<Vec<_>>().join("\n"),
        }
    }
}

/// The definitions of a file: a list of them, or an object with one.
fn definitions(mut json: Value) -> Result<Vec<Value>> {
    if let Some(tools) = json.get_mut("tools") {
        json = tools.take();
    }
    let Value::Array(tools) = json else { bail!("expected a list of tools") };
    for (i, tool) in tools.iter().enumerate() {
        if !is_tool_name(name(tool)) {
            bail!("tool {i} has no valid name, expected function.name");
        }
    }
    Ok(tools)
}

fn function(tool: &Value) -> &Value {
    tool.get("function").unwrap_or(tool)
}

fn name(tool: &Value) -> &str {
    function(tool)["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definitions_of_a_file() {
        let tool = json!({"type": "function", "function": {"name": "f", "description": "A\nB"}});
        let list = json!([tool, {"name": "g"}]);
        let mut tools = Tools::default();
        for tool in definitions(json!({"tools": list})).unwrap() {
            tools.add(tool, Owner::User).unwrap();
        }
        assert_eq!(definitions(list).unwrap().len(), 2);
        assert_eq!(tools.owner("g"), Some(Owner::User));
        assert_eq!(tools.owner("h"), None);
        assert!(tools.show().starts_with("  f                    A\n  g"), "{}", tools.show());
        let said = tools.add(tool, Owner::Server(0)).unwrap_err().to_string();
        assert!(said.contains("\"f\""), "{said}");
        for bad in [json!(1), json!({"f": 1}), json!([{}]), json!([{"name": "a b"}])] {
            definitions(bad).unwrap_err();
        }
        assert!(!tools.is_allowed("f"));
        tools.allow("f");
        assert!(tools.is_allowed("f") && !tools.is_allowed("g"));
    }
}
