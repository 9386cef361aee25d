//! The rows. Sources are the models' published chat templates and documentation.

use super::row::{Body, Calls, Format, Reasoning, Separator};

const THINK: Option<Reasoning> = Some(Reasoning { open: "<think>", close: "</think>" });

/// The texts before the name and the arguments of an object with these keys.
const NAME: &str = "{\"name\": \"";
const ARGUMENTS: &str = "\", \"arguments\": ";
/// Objects with the keys `name` and `arguments`, in a list.
const NAME_AND_ARGUMENTS: Body = Body::Array { before: NAME, between: ARGUMENTS, id: 0 };

/// Calls without sections and white space, of which rows say what differs.
const CALLS: Calls = Calls {
    sections: &[],
    section_each: false,
    margin: "",
    between: "",
    open: &[],
    close: "",
    padding: "",
    body: NAME_AND_ARGUMENTS,
    bare: false,
};

/// Text without reasoning and tool calls.
pub(super) const PLAIN: Format =
    Format { name: "plain", clues: &[], reasoning: None, calls: None, ends: &[] };

/// All formats, the more specific ones first.
pub const FORMATS: &[Format] = &[
    // gpt-oss: openai/harmony, docs/format.md.
    Format {
        name: "harmony",
        clues: &[&["<|channel|>", "<|message|>"]],
        reasoning: None,
        calls: Some(Calls { close: "<|call|>", body: Body::Harmony, ..CALLS }),
        ends: &["<|end|>", "<|return|>", "<|call|>"],
    },
    // Gemma 4: chat template of google/gemma-4-31B-it.
    Format {
        name: "gemma4",
        clues: &[&["<|tool_call>", "<tool_call|>"]],
        reasoning: Some(Reasoning { open: "<|channel>thought", close: "<channel|>" }),
        calls: Some(Calls {
            open: &["<|tool_call>"],
            close: "<tool_call|>",
            body: Body::Gemma,
            ..CALLS
        }),
        ends: &["<turn|>", "<|tool_response>"],
    },
    // DeepSeek V3.2 (and V4, whose section is named tool_calls): chat template and encoding of
    // deepseek-ai/DeepSeek-V3.2.
    Format {
        name: "deepseek-v3.2",
        clues: &[&["｜DSML｜"]],
        reasoning: THINK,
        calls: Some(Calls {
            sections: &[
                ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
                ("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"),
            ],
            margin: "\n",
            between: "\n",
            open: &["<｜DSML｜invoke name=\""],
            close: "</｜DSML｜invoke>",
            body: Body::Elements {
                name_end: "\">\n",
                parameter: "<｜DSML｜parameter name=\"",
                parameter_end: Separator::Typed {
                    string: "\" string=\"true\">",
                    json: "\" string=\"false\">",
                },
                value_end: "</｜DSML｜parameter>\n",
            },
            ..CALLS
        }),
        ends: &["<｜end▁of▁sentence｜>"],
    },
    // DeepSeek V3 and R1: chat template of deepseek-ai/DeepSeek-V3-0324. V2.5 is the same.
    Format {
        name: "deepseek-v3",
        clues: &[&["<｜tool▁calls▁begin｜>", "```json"]],
        reasoning: THINK,
        calls: Some(Calls {
            sections: &[("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")],
            between: "\n",
            open: &["<｜tool▁call▁begin｜>"],
            close: "<｜tool▁call▁end｜>",
            body: Body::Named {
                prefix: "function<｜tool▁sep｜>",
                separator: "\n```json\n",
                id: None,
                is_numbered: false,
                suffix: "\n```",
            },
            ..CALLS
        }),
        ends: &["<｜end▁of▁sentence｜>"],
    },
    // DeepSeek V3.1: chat template of deepseek-ai/DeepSeek-V3.1.
    Format {
        name: "deepseek-v3.1",
        clues: &[&["<｜tool▁calls▁begin｜>"]],
        reasoning: THINK,
        calls: Some(Calls {
            sections: &[("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")],
            open: &["<｜tool▁call▁begin｜>"],
            close: "<｜tool▁call▁end｜>",
            body: Body::Named {
                prefix: "",
                separator: "<｜tool▁sep｜>",
                id: None,
                is_numbered: false,
                suffix: "",
            },
            ..CALLS
        }),
        ends: &["<｜end▁of▁sentence｜>"],
    },
    // Kimi K2: chat template of moonshotai/Kimi-K2-Thinking.
    Format {
        name: "kimi-k2",
        clues: &[&["<|tool_call_argument_begin|>"], &["<|im_system|>tool_declare<|im_middle|>"]],
        reasoning: THINK,
        calls: Some(Calls {
            sections: &[("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>")],
            open: &["<|tool_call_begin|>"],
            close: "<|tool_call_end|>",
            body: Body::Named {
                prefix: "functions.",
                separator: "<|tool_call_argument_begin|>",
                id: Some(":"),
                is_numbered: true,
                suffix: "",
            },
            ..CALLS
        }),
        ends: &["<|im_end|>"],
    },
    // Seed-OSS: chat template of ByteDance-Seed/Seed-OSS-36B-Instruct.
    Format {
        name: "seed-oss",
        clues: &[&["<seed:tool_call>"]],
        reasoning: Some(Reasoning { open: "<seed:think>", close: "</seed:think>" }),
        calls: Some(Calls {
            sections: &[("<seed:tool_call>", "</seed:tool_call>")],
            section_each: true,
            margin: "\n",
            between: "\n",
            open: &["<function="],
            close: "</function>",
            body: Body::Elements {
                name_end: ">\n",
                parameter: "<parameter=",
                parameter_end: Separator::Text(">", ""),
                value_end: "</parameter>\n",
            },
            ..CALLS
        }),
        ends: &["<seed:eos>"],
    },
    // MiniMax M2: chat template of MiniMaxAI/MiniMax-M2.
    Format {
        name: "minimax-m2",
        clues: &[&["<minimax:tool_call>"]],
        reasoning: THINK,
        calls: Some(Calls {
            sections: &[("<minimax:tool_call>", "</minimax:tool_call>")],
            margin: "\n",
            between: "\n",
            open: &["<invoke name=\""],
            close: "</invoke>",
            body: Body::Elements {
                name_end: "\">\n",
                parameter: "<parameter name=\"",
                parameter_end: Separator::Text("\">", ""),
                value_end: "</parameter>\n",
            },
            ..CALLS
        }),
        ends: &["[e~["],
    },
    // LFM2 and LFM2.5: chat templates of LiquidAI/LFM2-1.2B and LiquidAI/LFM2.5-8B-A1B. Some
    // templates show calls as JSON, which the parser takes too.
    Format {
        name: "lfm2",
        clues: &[&["<|tool_call_start|>"], &["<|tool_list_start|>"]],
        reasoning: THINK,
        calls: Some(Calls {
            open: &["<|tool_call_start|>"],
            close: "<|tool_call_end|>",
            body: Body::Python,
            ..CALLS
        }),
        ends: &["<|im_end|>"],
    },
    // Nemotron Nano 2: chat template of nvidia/NVIDIA-Nemotron-Nano-9B-v2. Nemotron 3 has the form
    // of Qwen3-Coder.
    Format {
        name: "nemotron",
        clues: &[&["<TOOLCALL>"]],
        reasoning: THINK,
        calls: Some(Calls { open: &["<TOOLCALL>"], close: "</TOOLCALL>", ..CALLS }),
        ends: &["<SPECIAL_12>"],
    },
    // Command R7B and A: chat template of CohereForAI/c4ai-command-r7b-12-2024.
    Format {
        name: "command",
        clues: &[&["<|START_ACTION|>"]],
        reasoning: Some(Reasoning { open: "<|START_THINKING|>", close: "<|END_THINKING|>" }),
        calls: Some(Calls {
            open: &["<|START_ACTION|>"],
            close: "<|END_ACTION|>",
            body: Body::Array {
                before: "{\"tool_call_id\": \"0\", \"tool_name\": \"",
                between: "\", \"parameters\": ",
                id: 0,
            },
            ..CALLS
        }),
        ends: &["<|END_OF_TURN_TOKEN|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"],
    },
    // Phi-4-mini: chat template of microsoft/Phi-4-mini-instruct.
    Format {
        name: "phi4-mini",
        clues: &[&["<|tool_call|>", "<|/tool_call|>"]],
        reasoning: None,
        calls: Some(Calls { open: &["<|tool_call|>"], close: "<|/tool_call|>", ..CALLS }),
        ends: &["<|end|>"],
    },
    // Granite 3: chat template of ibm-granite/granite-3.3-8b-instruct. Granite 4 has Hermes' form.
    Format {
        name: "granite",
        clues: &[&["<|tool_call|>", "<|start_of_role|>"]],
        reasoning: THINK,
        calls: Some(Calls { open: &["<|tool_call|>"], ..CALLS }),
        ends: &["<|end_of_text|>", "<response>", "</response>"],
    },
    // Qwen3-Coder, Qwen3.5 and later: chat template of Qwen/Qwen3-Coder-30B-A3B-Instruct.
    Format {
        name: "qwen3-coder",
        clues: &[&["<function=", "<parameter="]],
        reasoning: THINK,
        calls: Some(Calls {
            sections: &[("<tool_call>", "</tool_call>")],
            section_each: true,
            margin: "\n",
            between: "\n",
            open: &["<function="],
            close: "</function>",
            body: Body::Elements {
                name_end: ">\n",
                parameter: "<parameter=",
                parameter_end: Separator::Text(">\n", ""),
                value_end: "\n</parameter>\n",
            },
            ..CALLS
        }),
        ends: &["<|im_end|>"],
    },
    // GLM-4.7: chat template of zai-org/GLM-4.7-Flash.
    Format {
        name: "glm4.7",
        clues: &[&["</arg_key><arg_value>"]],
        reasoning: THINK,
        calls: Some(Calls {
            open: &["<tool_call>"],
            close: "</tool_call>",
            body: Body::Elements {
                name_end: "",
                parameter: "<arg_key>",
                parameter_end: Separator::Text("</arg_key>", "<arg_value>"),
                value_end: "</arg_value>",
            },
            ..CALLS
        }),
        ends: &["<|observation|>", "<|user|>"],
    },
    // GLM-4.5 and 4.6: chat template of zai-org/GLM-4.6.
    Format {
        name: "glm4",
        clues: &[&["<arg_key>"]],
        reasoning: THINK,
        calls: Some(Calls {
            between: "\n",
            open: &["<tool_call>"],
            close: "</tool_call>",
            body: Body::Elements {
                name_end: "\n",
                parameter: "<arg_key>",
                parameter_end: Separator::Text("</arg_key>\n", "<arg_value>"),
                value_end: "</arg_value>\n",
            },
            ..CALLS
        }),
        ends: &["<|observation|>", "<|user|>"],
    },
    // Mistral from tokenizer v11 on: chat template of mistralai/Ministral-3-14B-Reasoning-2512.
    Format {
        name: "mistral",
        clues: &[&["[TOOL_CALLS]", "[ARGS]"]],
        reasoning: Some(Reasoning { open: "[THINK]", close: "[/THINK]" }),
        calls: Some(Calls {
            open: &["[TOOL_CALLS]"],
            body: Body::Named {
                prefix: "",
                separator: "[ARGS]",
                id: Some("[CALL_ID]"),
                is_numbered: false,
                suffix: "",
            },
            ..CALLS
        }),
        ends: &["</s>"],
    },
    // Mistral up to tokenizer v7: chat template of mistralai/Mistral-Nemo-Instruct-2407.
    Format {
        name: "mistral-array",
        clues: &[&["[TOOL_CALLS]"]],
        reasoning: Some(Reasoning { open: "[THINK]", close: "[/THINK]" }),
        calls: Some(Calls {
            open: &["[TOOL_CALLS]"],
            body: Body::Array { before: "{\"name\": \"", between: "\", \"arguments\": ", id: 9 },
            ..CALLS
        }),
        ends: &["</s>"],
    },
    // Llama 4: Meta's prompt format of Llama 4, section on tool calling.
    Format {
        name: "llama4",
        clues: &[&["<|python_start|>"], &["<|header_start|>"]],
        reasoning: None,
        calls: Some(Calls {
            open: &["<|python_start|>"],
            close: "<|python_end|>",
            body: Body::Python,
            bare: true,
            ..CALLS
        }),
        ends: &["<|eot|>", "<|eom|>"],
    },
    // Llama 3.1 to 3.3: Meta's prompt format of Llama 3.1, JSON based tool calling.
    Format {
        name: "llama3",
        clues: &[&["<|start_header_id|>", "ipython"], &["<|python_tag|>"]],
        reasoning: None,
        calls: Some(Calls {
            open: &["<|python_tag|>"],
            body: Body::Object { arguments: "parameters" },
            bare: true,
            ..CALLS
        }),
        ends: &["<|eot_id|>", "<|eom_id|>"],
    },
    // Hermes 2 and 3, Qwen2.5, Qwen3: chat templates of NousResearch/Hermes-3-Llama-3.1-8B and
    // Qwen/Qwen3-0.6B.
    Format {
        name: "hermes",
        clues: &[&["<tool_call>"]],
        reasoning: THINK,
        calls: Some(Calls {
            between: "\n",
            open: &["<tool_call>"],
            close: "</tool_call>",
            padding: "\n",
            body: Body::Object { arguments: "arguments" },
            ..CALLS
        }),
        ends: &["<|im_end|>"],
    },
    // Reasoning alone.
    Format {
        name: "think",
        clues: &[&["<think>"], &["</think>"]],
        reasoning: THINK,
        calls: None,
        ends: &[],
    },
];
