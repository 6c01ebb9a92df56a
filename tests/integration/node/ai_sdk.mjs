// Vercel's AI SDK: `node ai_sdk.mjs URL FLOW` prints what it got as JSON.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [url, flow, question = "Hi"] = process.argv.slice(2);
const options = { baseURL: url, apiKey: process.env.OPENAI_API_KEY };
const provider = createOpenAICompatible({
    ...options, name: "qwarm", includeUsage: true, supportsStructuredOutputs: true,
});
const asked = { model: provider("qwarm"), prompt: question, temperature: 0, maxRetries: 0 };
const weather = {
    tools: {
        get_weather: tool({
            inputSchema: z.object({ city: z.string() }),
            description: "Get the current weather for a city.",
            execute: async ({ city }) => `${city.length} °C, rainy`,
        }),
    },
    stopWhen: stepCountIs(3),
};

const flows = {
    async plain() {
        const { text, usage, finishReason } = await generateText(asked);
        return { text, tokens: usage.totalTokens, finishReason };
    },
    async stream() {
        const result = streamText(asked);
        let text = "";
        for await (const piece of result.textStream) text += piece;
        return { text, tokens: (await result.usage).totalTokens, finishReason: await result.finishReason };
    },
    async reasoning() {
        const { text, reasoningText } = await generateText(asked);
        return { text, reasoning: reasoningText };
    },
    async tools() {
        const { text, steps } = await generateText({ ...asked, ...weather });
        return { text, steps: steps.length };
    },
    async streamed_tools() {
        const result = streamText({ ...asked, ...weather });
        return { text: (await result.steps).at(-1).text, steps: (await result.steps).length };
    },
    async structured() {
        const schema = z.object({ name: z.string(), population: z.number().int() });
        return (await generateText({ ...asked, output: Output.object({ schema }) })).output;
    },
    async responses_api() {
        const failure = await generateText({ ...asked, model: createOpenAI(options)("qwarm") }).catch((error) => error);
        return { status: failure.statusCode, message: failure.message };
    },
    async refusal() {
        const failure = await generateText({ ...asked, temperature: 9 }).catch((error) => error);
        return { status: failure.statusCode, message: failure.message };
    },
};

console.log(JSON.stringify(await flows[flow]()));
