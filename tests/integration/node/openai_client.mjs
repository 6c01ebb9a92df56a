// OpenAI's client for Node: `node openai_client.mjs URL FLOW` prints what it got as JSON.
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const [url, flow] = process.argv.slice(2);
const client = new OpenAI({ baseURL: url, apiKey: process.env.OPENAI_API_KEY, maxRetries: 0 });
const asked = (content) => ({ model: "qwarm", temperature: 0, messages: [{ role: "user", content }] });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "get_weather", parameters } }];

const flows = {
    async plain() {
        const answer = await client.chat.completions.create(asked("Hi"));
        return { text: answer.choices[0].message.content, tokens: answer.usage.total_tokens };
    },
    async stream() {
        const body = { ...asked("Hi"), stream: true, stream_options: { include_usage: true } };
        let text = "", tokens = 0;
        for await (const chunk of await client.chat.completions.create(body)) {
            text += chunk.choices[0]?.delta.content ?? "";
            tokens = chunk.usage?.total_tokens ?? tokens;
        }
        return { text, tokens };
    },
    async tools() {
        const functions = [{
            type: "function",
            function: {
                name: "get_weather", description: "Get the current weather for a city.", parameters,
                parse: JSON.parse, function: ({ city }) => `${city.length} °C, rainy`,
            },
        }];
        const runner = client.chat.completions.runTools({ ...asked(process.argv[4]), tools: functions });
        return { text: await runner.finalContent() };
    },
    async streamed_tools() {
        const stream = client.chat.completions.stream({ ...asked(process.argv[4]), tools });
        const calls = (await stream.finalChatCompletion()).choices[0].message.tool_calls;
        return { cities: calls.map((call) => JSON.parse(call.function.arguments).city) };
    },
    async structured() {
        const shape = z.object({ name: z.string(), population: z.number().int() });
        const body = { ...asked(process.argv[4]), response_format: zodResponseFormat(shape, "city") };
        return (await client.chat.completions.parse(body)).choices[0].message.parsed;
    },
    async refusal() {
        const failure = await client.chat.completions.create({ ...asked("Hi"), n: 2 }).catch((error) => error);
        return { name: failure.constructor.name, status: failure.status, param: failure.param, code: failure.code };
    },
};

console.log(JSON.stringify(await flows[flow]()));
