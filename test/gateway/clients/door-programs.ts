/**
 * SDKs that speak Responses or Messages, as programs of their own: a question, a tool with an effect on the disk, an answer, and a second question. What breaks off behind its head the program
 * asks for again, as applications do.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { z } from "zod";
import { CACHE } from "../../fetch/sdk-programs.ts";
import { inherited } from "../../inherited.ts";

/** It takes seconds on an idle machine; a hanging one must not hang the test run. */
const RUN_MS = 200_000;
const REPOSITORY = join(import.meta.dirname, "../../..");

interface Program {
  /** Where its packages are. */
  readonly cwd: string;
  /** Defines `ask(question)`: the answer's text, with everything before it in the conversation. `given` and `note` are there. */
  readonly code: string;
}

const PROGRAMS = {
  "openai SDK": {
    cwd: REPOSITORY,
    code: `
      import OpenAI from "openai";
      const client = new OpenAI({ baseURL: given.baseURL, apiKey: given.apiKey });
      const tools = [{ type: "function", name: "note", parameters: z.toJSONSchema(ARGS), strict: false }];
      let previous_response_id;
      const ask = async (question) => {
        let input = question;
        for (;;) {
          const asked = { model: given.model, input, tools, previous_response_id };
          const response = await again(() => client.responses.stream(asked).finalResponse());
          previous_response_id = response.id;
          const calls = response.output.filter(({ type }) => type === "function_call");
          if (calls.length === 0) return response.output_text;
          input = [];
          for (const { call_id, arguments: args } of calls)
            input.push({ type: "function_call_output", call_id, output: await note(JSON.parse(args)) });
        }
      };
    `,
  },
  "AI SDK": {
    cwd: REPOSITORY,
    code: `
      import { createOpenAI } from "@ai-sdk/openai";
      import { isStepCount, streamText, tool } from "ai";
      const model = createOpenAI({ baseURL: given.baseURL, apiKey: given.apiKey })(given.model);
      const tools = { note: tool({ inputSchema: ARGS, execute: note }) };
      let messages = [];
      const ask = async (question) => {
        messages.push({ role: "user", content: question });
        return again(async () => {
          const prepareStep = (step) => { messages = step.messages; return {}; };
          const result = streamText({ model, tools, messages, stopWhen: isStepCount(5), prepareStep, onError: () => undefined });
          const said = await result.text;
          messages = [...messages, ...(await result.response).messages.slice(-1)];
          return said;
        });
      };
    `,
  },
  LangChain: {
    cwd: CACHE,
    code: `
      import { ChatOpenAI } from "@langchain/openai";
      import { HumanMessage, ToolMessage } from "@langchain/core/messages";
      import { tool } from "@langchain/core/tools";
      const noting = tool(note, { name: "note", description: "", schema: ARGS });
      const configuration = { baseURL: given.baseURL };
      const model = new ChatOpenAI({ model: given.model, apiKey: given.apiKey, configuration, useResponsesApi: true }).bindTools([noting]);
      const messages = [];
      const ask = async (question) => {
        messages.push(new HumanMessage(question));
        for (;;) {
          const answer = await again(async () => {
            let whole;
            for await (const chunk of await model.stream(messages)) whole = whole === undefined ? chunk : whole.concat(chunk);
            return whole;
          });
          messages.push(answer);
          if ((answer.tool_calls ?? []).length === 0) return answer.text;
          for (const { id, args } of answer.tool_calls)
            messages.push(new ToolMessage({ tool_call_id: id, content: await noting.invoke(args) }));
        }
      };
    `,
  },
  "OpenAI Agents": {
    cwd: CACHE,
    code: `
      import { Agent, OpenAIResponsesModel, run, setTracingDisabled, tool } from "@openai/agents";
      import OpenAI from "openai";
      setTracingDisabled(true);
      const client = new OpenAI({ baseURL: given.baseURL, apiKey: given.apiKey });
      const noting = tool({ name: "note", description: "", parameters: ARGS, execute: note });
      const agent = new Agent({ name: "noter", instructions: "", model: new OpenAIResponsesModel(client, given.model), tools: [noting] });
      let history = [];
      const ask = (question) => again(async () => {
        const result = await run(agent, [...history, { role: "user", content: question }], { stream: true });
        for await (const event of result);
        await result.completed;
        history = result.history;
        return result.finalOutput ?? "";
      });
    `,
  },
  "OpenAI Agents, in a conversation": {
    cwd: CACHE,
    code: `
      import { Agent, OpenAIConversationsSession, OpenAIResponsesModel, run, setTracingDisabled, tool } from "@openai/agents";
      import OpenAI from "openai";
      setTracingDisabled(true);
      const client = new OpenAI({ baseURL: given.baseURL, apiKey: given.apiKey });
      const noting = tool({ name: "note", description: "", parameters: ARGS, execute: note });
      const agent = new Agent({ name: "noter", instructions: "", model: new OpenAIResponsesModel(client, given.model), tools: [noting] });
      const session = new OpenAIConversationsSession({ client });
      const ask = async (question) => (await run(agent, question, { session })).finalOutput ?? "";
    `,
  },
  "Anthropic SDK": {
    cwd: REPOSITORY,
    code: `
      import Anthropic from "@anthropic-ai/sdk";
      const client = new Anthropic({ baseURL: given.baseURL.replace(/.v1$/, ""), apiKey: given.apiKey });
      const tools = [{ name: "note", input_schema: z.toJSONSchema(ARGS) }];
      const messages = [];
      const ask = async (question) => {
        messages.push({ role: "user", content: question });
        for (;;) {
          const asked = { model: given.model, max_tokens: 1000, tools, messages };
          const { content } = await again(() => client.messages.stream(asked).finalMessage());
          messages.push({ role: "assistant", content });
          const calls = content.filter(({ type }) => type === "tool_use");
          if (calls.length === 0) return content.map(({ text }) => text ?? "").join("");
          const results = [];
          for (const { id, input } of calls)
            results.push({ type: "tool_result", tool_use_id: id, content: await note(input) });
          messages.push({ role: "user", content: results });
        }
      };
    `,
  },
} as const satisfies Readonly<Record<string, Program>>;

export type DoorSdk = keyof typeof PROGRAMS;
export const DOOR_PROGRAMS: readonly DoorSdk[] = [
  "openai SDK",
  "AI SDK",
  "LangChain",
  "OpenAI Agents",
  "Anthropic SDK",
];

export interface Talk {
  readonly baseURL: string;
  readonly apiKey: string;
  readonly model: string;
  readonly questions: readonly string[];
  /** The tool adds a line to this file, and ends when there is another one beside it that is called like it with `.go` behind. */
  readonly file: string;
}

const SAID = z.object({ said: z.array(z.string()), broken: z.number() });

function programOf(code: string): string {
  const lines = code.split("\n").map((line) => line.trim());
  const isImport = (line: string): boolean => line.startsWith("import ");
  return [
    ...lines.filter(isImport),
    'import { appendFileSync, existsSync } from "node:fs";',
    'import { z } from "zod";',
    "const given = JSON.parse(process.argv[1]);",
    "const ARGS = z.object({ text: z.string() });",
    "const note = async ({ text }) => {",
    "appendFileSync(given.file, text);",
    'while (!existsSync(given.file + ".go")) await new Promise((resolve) => setTimeout(resolve, 20));',
    'return "noted";',
    "};",
    "let broken = 0;",
    "const again = async (work) => { try { return await work(); } catch (error) { if (broken++ > 2) throw error; return again(work); } };",
    ...lines.filter((line) => !isImport(line)),
    "const said = [];",
    "for (const question of given.questions) said.push(await ask(question));",
    "process.stdout.write(JSON.stringify({ said, broken }));",
    "process.exit(0);",
  ].join("\n");
}

/** What it was told, question by question, and how often it had to ask again. */
export async function talkBy(sdk: DoorSdk, talk: Talk): Promise<z.infer<typeof SAID>> {
  const { cwd, code } = PROGRAMS[sdk];
  const args = ["--input-type=module", "-e", programOf(code), JSON.stringify(talk)];
  const child = spawn(process.execPath, args, {
    cwd,
    env: { ...inherited(), PATH: process.env["PATH"] },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: RUN_MS,
    killSignal: "SIGKILL",
  });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if (stdout === "") throw new Error(`${sdk} said nothing: ${stderr}`);
  return SAID.parse(JSON.parse(stdout));
}
