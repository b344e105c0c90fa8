// What the official packages for Node read from a server, as one line of JSON. Arguments: base address, scripted base
// address.
import Anthropic from "@anthropic-ai/sdk";
import { Ollama } from "ollama";
import OpenAI from "openai";

const [base, scripted] = process.argv.slice(2);
const seen = {};
const messages = [{ role: "user", content: "Hi" }];
const asked = [{ role: "user", content: '@call weather {"city": "Oslo"}' }];
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const functions = [{ type: "function", function: { name: "weather", description: "Weather", parameters: schema } }];

async function all(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

const openai = new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 });
const chat = await openai.chat.completions.create({ model: "tiny", messages, temperature: 0, max_tokens: 5 });
seen.chat = { finish: chat.choices[0].finish_reason, tokens: chat.usage.completion_tokens };
const runner = openai.chat.completions.stream({
  model: "tiny", messages, temperature: 0, max_tokens: 5, stream_options: { include_usage: true },
});
await all(runner);
seen.chatStream = { text: (await runner.finalContent()) === (await runner.finalMessage()).content,
  tokens: (await runner.totalUsage()).completion_tokens };
const response = openai.responses.stream({ model: "tiny", input: "Hi", temperature: 0, max_output_tokens: 5 });
const events = await all(response);
seen.responses = { first: events[0].type, last: events.at(-1).type,
  numbers: events.every((event, at) => event.sequence_number === at) };
const vectors = await openai.embeddings.create({ model: "tiny", input: ["a", "b"] });
seen.embeddings = { count: vectors.data.length, width: vectors.data[0].embedding.length };
seen.models = (await openai.models.list()).data.map((model) => model.id);
try {
  await openai.chat.completions.create({ model: "nobody", messages });
} catch (error) {
  seen.unknown = { status: error.status, code: error.code, kind: error.constructor.name };
}

const callers = new OpenAI({ baseURL: `${scripted}/v1`, apiKey: "none", maxRetries: 0 });
const loop = callers.chat.completions.runTools({
  model: "scripted", messages: asked,
  tools: [{ type: "function", function: { ...functions[0].function, parse: JSON.parse,
    function: ({ city }) => `rain in ${city}` } }],
});
seen.runTools = await loop.finalContent();

const claude = new Anthropic({ baseURL: base, apiKey: "none", maxRetries: 0 });
const message = await claude.messages.create({ model: "tiny", max_tokens: 5, temperature: 0, messages });
seen.message = { stop: message.stop_reason, tokens: message.usage.output_tokens, block: message.content[0].type };
const flow = claude.messages.stream({ model: "tiny", max_tokens: 5, temperature: 0, messages });
const kinds = (await all(flow)).map((event) => event.type);
seen.messageStream = { first: kinds[0], last: kinds.at(-1), stop: (await flow.finalMessage()).stop_reason };
seen.count = (await claude.messages.countTokens({ model: "tiny", messages })).input_tokens;
const tools = [{ name: "weather", description: "Weather", input_schema: schema }];
const users = new Anthropic({ baseURL: scripted, apiKey: "none", maxRetries: 0 });
const call = await users.messages.stream({ model: "scripted", max_tokens: 50, messages: asked, tools }).finalMessage();
const use = call.content.find((block) => block.type === "tool_use");
const after = await users.messages.create({ model: "scripted", max_tokens: 50, tools, messages: [...asked,
  { role: "assistant", content: call.content },
  { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: "rain" }] }] });
seen.toolUse = { stop: call.stop_reason, input: use.input, answer: after.content[0].text };

const ollama = new Ollama({ host: base });
const told = await ollama.chat({ model: "tiny", messages, options: { num_predict: 5, temperature: 0 } });
seen.ollama = { done: told.done_reason, tokens: told.eval_count };
const options = { num_predict: 5, temperature: 0 };
const parts = await all(await ollama.generate({ model: "tiny", prompt: "Hi", stream: true, options }));
seen.ollamaStream = { done: parts.at(-1).done, tokens: parts.at(-1).eval_count };
seen.ollamaList = (await ollama.list()).models.map((model) => model.name);
seen.ollamaEmbed = (await ollama.embed({ model: "tiny", input: "a" })).embeddings[0].length;
const calls = (await new Ollama({ host: scripted }).chat({ model: "scripted", messages: asked, tools: functions }))
  .message.tool_calls;
seen.ollamaTool = calls[0].function;
console.log(JSON.stringify(seen));
