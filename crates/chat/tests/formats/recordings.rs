//! Recorded outputs, written after the formats' published chat templates and documentation.

/// An output and what it means.
pub(crate) struct Recording {
    pub(crate) format: &'static str,
    pub(crate) output: &'static str,
    pub(crate) reasoning: &'static str,
    pub(crate) content: &'static str,
    /// Names and arguments.
    pub(crate) calls: &'static [(&'static str, &'static str)],
}

const fn recording(
    format: &'static str,
    output: &'static str,
    reasoning: &'static str,
    content: &'static str,
    calls: &'static [(&'static str, &'static str)],
) -> Recording {
    Recording { format, output, reasoning, content, calls }
}

const WEATHER: (&str, &str) = ("get_weather", r#"{"city":"Paris","days":2}"#);
const TIME: (&str, &str) = ("get_time", "{}");

pub(crate) const RECORDINGS: &[Recording] = &[
    // Text alone.
    recording("hermes", " Hello \n", "", " Hello \n", &[]),
    recording("think", "<think>\nHm.\n</think>\n\nHello", "Hm.", "Hello", &[]),
    recording("think", "Use <think> tags.", "", "Use <think> tags.", &[]),
    // Hermes, Qwen2.5, Qwen3.
    recording(
        "hermes",
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 2}}\n\
         </tool_call>",
        "",
        "",
        &[WEATHER],
    ),
    recording(
        "hermes",
        "<think>\nI need both.\n</think>\n\nOne moment.\n\n<tool_call>\n{\"name\": \"get_weather\", \
         \"arguments\": {\"city\": \"Paris\", \"days\": 2}}\n</tool_call>\n<tool_call>\n\
         {\"name\": \"get_time\", \"arguments\": {}}\n</tool_call><|im_end|>",
        "I need both.",
        "One moment.",
        &[WEATHER, TIME],
    ),
    recording(
        "hermes",
        "<tool_call>\n{\"arguments\": {\"city\": \"Paris\", \"days\": 2}, \"name\": \"get_weather\"}\n\
         </tool_call>",
        "",
        "",
        &[WEATHER],
    ),
    recording(
        "hermes",
        "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": \\\"</tool_call>\\\"}\", \"id\": 3}\
         </tool_call>",
        "",
        "",
        &[("f", r#"{"a":"</tool_call>"}"#)],
    ),
    recording(
        "hermes",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call> é 😀 \\u00e9 \\ud83d\\ude00 \n\"}}",
        "",
        "",
        &[("f", "{\"a\":\"</tool_call> é 😀 \\u00e9 \\ud83d\\ude00 \\n\"}")],
    ),
    // Kimi K2: an identifier is the name and the number of a call.
    recording(
        "kimi-k2",
        "<think>Two.</think>One moment.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0\
         <|tool_call_argument_begin|>{\"city\": \"Paris\", \"days\": 2}<|tool_call_end|><|tool_call_begin|>\
         functions.get_time:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|><|im_end|>",
        "Two.",
        "One moment.",
        &[WEATHER, TIME],
    ),
    recording(
        "kimi-k2",
        "<|tool_call_begin|>functions.other<|tool_call_end|>",
        "",
        "<|tool_call_begin|>functions.other<|tool_call_end|>",
        &[],
    ),
    // Seed-OSS.
    recording(
        "seed-oss",
        "<seed:think>Hm.</seed:think>\n<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n\
         <parameter=days>2</parameter>\n</function>\n</seed:tool_call><seed:eos>",
        "Hm.",
        "",
        &[WEATHER],
    ),
    // MiniMax M2.
    recording(
        "minimax-m2",
        "<think>\nHm.\n</think>\n\nI'll look.\n<minimax:tool_call>\n<invoke name=\"get_weather\">\n\
         <parameter name=\"city\">Paris</parameter>\n<parameter name=\"days\">2</parameter>\n</invoke>\n\
         <invoke name=\"get_time\">\n</invoke>\n</minimax:tool_call>[e~[",
        "Hm.",
        "I'll look.",
        &[WEATHER, TIME],
    ),
    // LFM2, in the forms of its two templates.
    recording(
        "lfm2",
        "<|tool_call_start|>[get_weather(city='Paris', days=2), get_time()]<|tool_call_end|>Looking.<|im_end|>",
        "",
        "Looking.",
        &[WEATHER, TIME],
    ),
    recording(
        "lfm2",
        "<think>Hm.</think><|tool_call_start|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \
         \"days\": 2}, \"id\": \"a\"}]<|tool_call_end|>",
        "Hm.",
        "",
        &[WEATHER],
    ),
    // Nemotron Nano 2.
    recording(
        "nemotron",
        "<think>\nHm.\n</think>\n\n<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \
         \"days\": 2}}, {\"name\": \"get_time\", \"arguments\": {}}]</TOOLCALL>\n<SPECIAL_12>",
        "Hm.",
        "",
        &[WEATHER, TIME],
    ),
    // Command R7B.
    recording(
        "command",
        "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \
         \"get_weather\", \"parameters\": {\"city\": \"Paris\", \"days\": 2}}\n]<|END_ACTION|><|END_OF_TURN_TOKEN|>",
        "Hm.",
        "",
        &[WEATHER],
    ),
    recording(
        "command",
        "<|START_RESPONSE|>Hello<|END_RESPONSE|><|END_OF_TURN_TOKEN|>",
        "",
        "Hello",
        &[],
    ),
    // Phi-4-mini: a list, or one object.
    recording(
        "phi4-mini",
        "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 2}}]\
         <|/tool_call|><|end|>",
        "",
        "",
        &[WEATHER],
    ),
    recording(
        "phi4-mini",
        "<|tool_call|>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 2}}<|/tool_call|>",
        "",
        "",
        &[WEATHER],
    ),
    // Granite 3.
    recording(
        "granite",
        "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 2}}]\
         <|end_of_text|>",
        "",
        "",
        &[WEATHER],
    ),
    // Qwen3-Coder.
    recording(
        "qwen3-coder",
        "I'll look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n\
         <parameter=days>\n2\n</parameter>\n</function>\n</tool_call>",
        "",
        "I'll look.",
        &[WEATHER],
    ),
    recording(
        "qwen3-coder",
        "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n\
         </parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get_time>\n</function>\n\
         </tool_call>",
        "",
        "",
        &[WEATHER, TIME],
    ),
    recording(
        "qwen3-coder",
        "<tool_call>\n<function=write>\n<parameter=text>\n1 < 2\n  <b>x</b>\n\n</parameter>\n\
         <parameter=id>\n12\n</parameter>\n</tool_call>",
        "",
        "",
        &[("write", "{\"text\":\"1 < 2\\n  <b>x</b>\\n\",\"id\":\"12\"}")],
    ),
    recording(
        "qwen3-coder",
        "<tool_call>\n<function=write>\n<parameter=text>\nsay </function> and <function=x>\n\
         </parameter>\n</function>\n</tool_call>",
        "",
        "",
        &[("write", r#"{"text":"say </function> and <function=x>"}"#)],
    ),
    // Llama 3.
    recording(
        "llama3",
        "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\", \"days\": 2}}<|eot_id|>",
        "",
        "",
        &[WEATHER],
    ),
    recording(
        "llama3",
        "<|python_tag|>{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\", \"days\": 2}}\
         <|eom_id|>",
        "",
        "",
        &[WEATHER],
    ),
    recording(
        "llama3",
        "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\", \"days\": 2}}; \
         {\"name\": \"get_time\", \"parameters\": {}}",
        "",
        "",
        &[WEATHER, TIME],
    ),
    recording(
        "llama3",
        "<|python_tag|>brave_search.call(query=\"what is 'truth'?\")<|eom_id|>",
        "",
        "",
        &[("brave_search", r#"{"query":"what is 'truth'?"}"#)],
    ),
    recording("llama3", "{\"answer\": 42}", "", "{\"answer\": 42}", &[]),
    // Llama 4.
    recording(
        "llama4",
        "<|python_start|>[get_weather(city=\"Paris\", days=2), get_time()]<|python_end|><|eot|>",
        "",
        "",
        &[WEATHER, TIME],
    ),
    recording(
        "llama4",
        "[f(a=1.5, b=True, c=None, d=['x', \"]\"], e={'k': (1, -2)}, g='it\\'s')]",
        "",
        "",
        &[("f", r#"{"a":1.5,"b":true,"c":null,"d":["x","]"],"e":{"k":[1,-2]},"g":"it's"}"#)],
    ),
    recording("llama4", "[1] is a footnote.", "", "[1] is a footnote.", &[]),
    // Mistral.
    recording(
        "mistral-array",
        "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 2}, \
         \"id\": \"abcdefghi\"}, {\"name\": \"get_time\", \"arguments\": {}, \"id\": \"123456789\"}]</s>",
        "",
        "",
        &[WEATHER, TIME],
    ),
    recording(
        "mistral",
        "[THINK]Hm.[/THINK]Yes.[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]{\"city\": \"Paris\", \
         \"days\": 2}[TOOL_CALLS]get_time[ARGS]{}</s>",
        "Hm.",
        "Yes.",
        &[WEATHER, TIME],
    ),
    recording(
        "mistral",
        "[TOOL_CALLS]get_weather{\"city\": \"Paris\", \"days\": 2}",
        "",
        "",
        &[WEATHER],
    ),
    recording(
        "mistral",
        "[TOOL_CALLS] [{\"name\": \"get_time\", \"arguments\": {}}]",
        "",
        "",
        &[TIME],
    ),
    // DeepSeek.
    recording(
        "deepseek-v3",
        "<think>\nHm.\n</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>\
         get_weather\n```json\n{\"city\": \"Paris\", \"days\": 2}\n```<｜tool▁call▁end｜>\n\
         <｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time\n```json\n{}\n```<｜tool▁call▁end｜>\
         <｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
        "Hm.",
        "",
        &[WEATHER, TIME],
    ),
    recording(
        "deepseek-v3.1",
        "Both.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Paris\", \
         \"days\": 2}<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{}<｜tool▁call▁end｜>\
         <｜tool▁calls▁end｜>",
        "",
        "Both.",
        &[WEATHER, TIME],
    ),
    recording(
        "deepseek-v3.2",
        "<think>Hm.</think>Both.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n\
         <｜DSML｜parameter name=\"city\" string=\"true\">Paris</｜DSML｜parameter>\n\
         <｜DSML｜parameter name=\"days\" string=\"false\">2</｜DSML｜parameter>\n\
         </｜DSML｜invoke>\n<｜DSML｜invoke name=\"get_time\">\n</｜DSML｜invoke>\n\
         </｜DSML｜function_calls><｜end▁of▁sentence｜>",
        "Hm.",
        "Both.",
        &[WEATHER, TIME],
    ),
    recording(
        "deepseek-v3.2",
        "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" \
         string=\"false\">{\"b\": [1]}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
        "",
        "",
        &[("f", r#"{"a":{"b":[1]}}"#)],
    ),
    // gpt-oss.
    recording(
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello \
         there.<|return|>",
        "Hm.",
        "Hello there.",
        &[],
    ),
    recording(
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary \
         to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Paris\", \"days\": 2}<|call|>",
        "Hm.",
        "",
        &[WEATHER],
    ),
    recording(
        "harmony",
        " to=functions.get_time<|channel|>commentary json<|message|>{}<|call|>",
        "",
        "",
        &[TIME],
    ),
    recording(
        "harmony",
        "<|channel|>commentary<|message|>One moment.<|end|><|start|>assistant<|channel|>commentary \
         to=functions.get_time <|constrain|>json<|message|>{}<|call|>",
        "",
        "One moment.",
        &[TIME],
    ),
    recording("harmony", "No header at all.", "", "No header at all.", &[]),
    recording(
        "harmony",
        "<|channel|>final<|message|>Missing end<|start|>assistant<|channel|>analysis<|message|>Hm",
        "Hm",
        "Missing end",
        &[],
    ),
    // Gemma 4.
    recording(
        "gemma4",
        "<|channel>thought\nHm.\n<channel|>Both.<|tool_call>call:get_weather{city:<|\"|>Paris<|\"|>,\
         days:2}<tool_call|><|tool_call>call:get_time{}<tool_call|><|tool_response>",
        "Hm.",
        "Both.",
        &[WEATHER, TIME],
    ),
    recording(
        "gemma4",
        "<|tool_call>call:f{a:[1,<|\"|>x,}<|\"|>],b:{c:true,d:null},e:-1.5}<tool_call|>",
        "",
        "",
        &[("f", r#"{"a":[1,"x,}"],"b":{"c":true,"d":null},"e":-1.5}"#)],
    ),
    // GLM.
    recording(
        "glm4",
        "\n<think>Hm.</think>\nBoth.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n\
         <arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n\
         <tool_call>get_time\n</tool_call><|observation|>",
        "Hm.",
        "Both.",
        &[WEATHER, TIME],
    ),
    recording(
        "glm4.7",
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value><arg_key>days\
         </arg_key><arg_value>2</arg_value></tool_call><tool_call>get_time</tool_call>",
        "",
        "",
        &[WEATHER, TIME],
    ),
    // Malformed calls are content.
    recording("hermes", "<tool_call>no", "", "<tool_call>no", &[]),
    recording(
        "hermes",
        "A <tool_call>\nno</tool_call> B",
        "",
        "A <tool_call>\nno</tool_call> B",
        &[],
    ),
    recording(
        "hermes",
        "<tool_call>{x}</tool_call>\n<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>",
        "",
        "<tool_call>{x}</tool_call>",
        &[TIME],
    ),
    recording(
        "hermes",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": oops}}</tool_call>",
        "",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": oops}}</tool_call>",
        &[],
    ),
    recording(
        "hermes",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"cut of",
        "",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"cut of",
        &[],
    ),
    recording(
        "qwen3-coder",
        "<tool_call>\n<function=f>\n<parameter=a>\n1",
        "",
        "<tool_call>\n<function=f>\n<parameter=a>\n1",
        &[],
    ),
    recording("mistral", "[TOOL_CALLS]not a name", "", "[TOOL_CALLS]not a name", &[]),
    recording("mistral-array", "[TOOL_CALLS][1]", "", "[TOOL_CALLS][1]", &[]),
    recording(
        "deepseek-v3",
        "<｜tool▁call▁begin｜>other<｜tool▁sep｜>f",
        "",
        "<｜tool▁call▁begin｜>other<｜tool▁sep｜>f",
        &[],
    ),
    recording("gemma4", "<|tool_call>call:f{a:", "", "<|tool_call>call:f{a:", &[]),
    recording("glm4", "<tool_call>a b</tool_call>", "", "<tool_call>a b</tool_call>", &[]),
    recording(
        "llama4",
        "<|python_start|>print(1)<|python_end|>",
        "",
        "<|python_start|>print(1)<|python_end|>",
        &[],
    ),
    recording("llama3", "<|python_tag|>print(1)", "", "<|python_tag|>print(1)", &[]),
    recording(
        "harmony",
        "<|channel|>commentary to=functions.f<|message|>oops<|call|>",
        "",
        "oops",
        &[],
    ),
];
