//! The rows. Sources are the models' published chat templates and documentation.

use super::row::{Body, Calls, Format, Reasoning, Separator};

const THINK: Option<Reasoning> = Some(Reasoning { open: "<think>", close: "</think>" });

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
        calls: Some(Calls {
            sections: &[],
            section_each: false,
            margin: "",
            between: "",
            open: &[],
            close: "<|call|>",
            padding: "",
            body: Body::Harmony,
            bare: false,
        }),
        ends: &["<|end|>", "<|return|>", "<|call|>"],
    },
    // Gemma 4: chat template of google/gemma-4-31B-it.
    Format {
        name: "gemma4",
        clues: &[&["<|tool_call>", "<tool_call|>"]],
        reasoning: Some(Reasoning { open: "<|channel>thought", close: "<channel|>" }),
        calls: Some(Calls {
            sections: &[],
            section_each: false,
            margin: "",
            between: "",
            open: &["<|tool_call>"],
            close: "<tool_call|>",
            padding: "",
            body: Body::Gemma,
            bare: false,
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
            section_each: false,
            margin: "\n",
            between: "\n",
            open: &["<｜DSML｜invoke name=\""],
            close: "</｜DSML｜invoke>",
            padding: "",
            body: Body::Elements {
                name_end: "\">\n",
                parameter: "<｜DSML｜parameter name=\"",
                parameter_end: Separator::Typed {
                    string: "\" string=\"true\">",
                    json: "\" string=\"false\">",
                },
                value_end: "</｜DSML｜parameter>\n",
            },
            bare: false,
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
            section_each: false,
            margin: "",
            between: "\n",
            open: &["<｜tool▁call▁begin｜>"],
            close: "<｜tool▁call▁end｜>",
            padding: "",
            body: Body::Named {
                prefix: "function<｜tool▁sep｜>",
                separator: "\n```json\n",
                id: None,
                suffix: "\n```",
            },
            bare: false,
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
            section_each: false,
            margin: "",
            between: "",
            open: &["<｜tool▁call▁begin｜>"],
            close: "<｜tool▁call▁end｜>",
            padding: "",
            body: Body::Named { prefix: "", separator: "<｜tool▁sep｜>", id: None, suffix: "" },
            bare: false,
        }),
        ends: &["<｜end▁of▁sentence｜>"],
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
            padding: "",
            body: Body::Elements {
                name_end: ">\n",
                parameter: "<parameter=",
                parameter_end: Separator::Text(">\n", ""),
                value_end: "\n</parameter>\n",
            },
            bare: false,
        }),
        ends: &["<|im_end|>"],
    },
    // GLM-4.7: chat template of zai-org/GLM-4.7-Flash.
    Format {
        name: "glm4.7",
        clues: &[&["</arg_key><arg_value>"]],
        reasoning: THINK,
        calls: Some(Calls {
            sections: &[],
            section_each: false,
            margin: "",
            between: "",
            open: &["<tool_call>"],
            close: "</tool_call>",
            padding: "",
            body: Body::Elements {
                name_end: "",
                parameter: "<arg_key>",
                parameter_end: Separator::Text("</arg_key>", "<arg_value>"),
                value_end: "</arg_value>",
            },
            bare: false,
        }),
        ends: &["<|observation|>", "<|user|>"],
    },
    // GLM-4.5 and 4.6: chat template of zai-org/GLM-4.6.
    Format {
        name: "glm4",
        clues: &[&["<arg_key>"]],
        reasoning: THINK,
        calls: Some(Calls {
            sections: &[],
            section_each: false,
            margin: "",
            between: "\n",
            open: &["<tool_call>"],
            close: "</tool_call>",
            padding: "",
            body: Body::Elements {
                name_end: "\n",
                parameter: "<arg_key>",
                parameter_end: Separator::Text("</arg_key>\n", "<arg_value>"),
                value_end: "</arg_value>\n",
            },
            bare: false,
        }),
        ends: &["<|observation|>", "<|user|>"],
    },
    // Mistral from tokenizer v11 on: chat template of mistralai/Ministral-3-14B-Reasoning-2512.
    Format {
        name: "mistral",
        clues: &[&["[TOOL_CALLS]", "[ARGS]"]],
        reasoning: Some(Reasoning { open: "[THINK]", close: "[/THINK]" }),
        calls: Some(Calls {
            sections: &[],
            section_each: false,
            margin: "",
            between: "",
            open: &["[TOOL_CALLS]"],
            close: "",
            padding: "",
            body: Body::Named {
                prefix: "",
                separator: "[ARGS]",
                id: Some("[CALL_ID]"),
                suffix: "",
            },
            bare: false,
        }),
        ends: &["</s>"],
    },
    // Mistral up to tokenizer v7: chat template of mistralai/Mistral-Nemo-Instruct-2407.
    Format {
        name: "mistral-array",
        clues: &[&["[TOOL_CALLS]"]],
        reasoning: Some(Reasoning { open: "[THINK]", close: "[/THINK]" }),
        calls: Some(Calls {
            sections: &[],
            section_each: false,
            margin: "",
            between: "",
            open: &["[TOOL_CALLS]"],
            close: "",
            padding: "",
            body: Body::Array,
            bare: false,
        }),
        ends: &["</s>"],
    },
    // Llama 4: Meta's prompt format of Llama 4, section on tool calling.
    Format {
        name: "llama4",
        clues: &[&["<|python_start|>"], &["<|header_start|>"]],
        reasoning: None,
        calls: Some(Calls {
            sections: &[],
            section_each: false,
            margin: "",
            between: "",
            open: &["<|python_start|>"],
            close: "<|python_end|>",
            padding: "",
            body: Body::Python,
            bare: true,
        }),
        ends: &["<|eot|>", "<|eom|>"],
    },
    // Llama 3.1 to 3.3: Meta's prompt format of Llama 3.1, JSON based tool calling.
    Format {
        name: "llama3",
        clues: &[&["<|start_header_id|>", "ipython"], &["<|python_tag|>"]],
        reasoning: None,
        calls: Some(Calls {
            sections: &[],
            section_each: false,
            margin: "",
            between: "",
            open: &["<|python_tag|>"],
            close: "",
            padding: "",
            body: Body::Object { arguments: "parameters" },
            bare: true,
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
            sections: &[],
            section_each: false,
            margin: "",
            between: "\n",
            open: &["<tool_call>"],
            close: "</tool_call>",
            padding: "\n",
            body: Body::Object { arguments: "arguments" },
            bare: false,
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
