/**
 * LangChain and the OpenAI Agents SDK as programs of their own: one question, a tool, an answer, and nothing done about a break.
 *
 * Their packages come from npm, once per machine, into a cache beside the repository's own: with all that they bring along they are too large (90 MB) to be dev
 * dependencies that every contributor downloads.
 */
import { execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { z } from "zod";
import { inherited } from "../inherited.ts";

const PACKAGES = [
  "@langchain/openai@1.6.0",
  "@langchain/core@1.2.13",
  "@openai/agents@0.20.0",
  "openai@7.53.0",
  "zod@4.6.7",
];
/** Where they are, with all that they bring along. */
export const CACHE = join(tmpdir(), "holdfast-sdks-langchain-1.6.0-agents-0.20.0");
const INSTALL_MS = 180_000;
/** It takes seconds on an idle machine; a hanging one must not hang the test run. */
const RUN_MS = 120_000;
const FETCH = join(import.meta.dirname, "../../src/fetch/index.ts");

/** `given` and `look` are there; `say` tells what the user sees. */
const CHAT_PROGRAMS = {
  LangChain: `
    import { ChatOpenAI } from "@langchain/openai";
    import { HumanMessage, ToolMessage } from "@langchain/core/messages";
    import { tool } from "@langchain/core/tools";
    const configuration = { baseURL: given.baseURL, ...(fetch === undefined ? {} : { fetch }) };
    const looking = tool(look, { name: "look", description: "looks at something", schema: z.object({ at: z.string() }) });
    const model = new ChatOpenAI({ model: given.model, apiKey: given.apiKey, configuration, streamUsage: true }).bindTools([looking]);
    const messages = [new HumanMessage(given.question)];
    for (;;) {
      let answer;
      for await (const chunk of await model.stream(messages)) answer = answer === undefined ? chunk : answer.concat(chunk);
      messages.push(answer);
      if ((answer.tool_calls ?? []).length === 0) { say(answer.text); break; }
      for (const call of answer.tool_calls)
        messages.push(new ToolMessage({ tool_call_id: call.id, content: await looking.invoke(call.args) }));
    }
  `,
  "OpenAI Agents": `
    import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled, tool } from "@openai/agents";
    import OpenAI from "openai";
    setTracingDisabled(true);
    const client = new OpenAI({ baseURL: given.baseURL, apiKey: given.apiKey, ...(fetch === undefined ? {} : { fetch }) });
    const looking = tool({ name: "look", description: "looks at something", parameters: z.object({ at: z.string() }), execute: look });
    const agent = new Agent({ name: "looker", instructions: "", model: new OpenAIChatCompletionsModel(client, given.model), tools: [looking] });
    const result = await run(agent, given.question, { stream: true });
    for await (const event of result);
    await result.completed;
    say(result.finalOutput ?? "");
  `,
};

export const PROGRAM_SDKS = ["LangChain", "OpenAI Agents"] as const;
/** The same SDKs by their other door. */
export const RESPONSES_SDKS = ["LangChain by Responses", "OpenAI Agents by Responses"] as const;
export type ProgramSdk = (typeof PROGRAM_SDKS | typeof RESPONSES_SDKS)[number];

export interface Question {
  readonly baseURL: string;
  readonly apiKey: string;
  readonly model: string;
  readonly question: string;
  readonly hasFetch: boolean;
}

const SAID = z.object({ said: z.string().optional(), error: z.string().optional(), looks: z.number() });
export type Said = z.infer<typeof SAID>;

/** Rejects where there is no registry to have the packages from. */
export async function installSdks(): Promise<void> {
  if (existsSync(CACHE)) return;
  const fresh = mkdtempSync(`${CACHE}-`);
  try {
    const how = ["--prefix", fresh, "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"];
    await promisify(execFile)("npm", ["install", ...how, ...PACKAGES], { cwd: fresh, timeout: INSTALL_MS });
    // Whole or not at all: another test run may be installing it as well, and the first one wins.
    if (!existsSync(CACHE)) renameSync(fresh, CACHE);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

function programOf(code: string): string {
  const lines = code.split("\n").map((line) => line.trim());
  const isImport = (line: string): boolean => line.startsWith("import ");
  return [
    ...lines.filter(isImport),
    'import { z } from "zod";',
    "const given = JSON.parse(process.argv[1]);",
    "const { holdfast } = await import(process.argv[2]);",
    "const fetch = given.hasFetch ? holdfast({ baseURL: given.baseURL }) : undefined;",
    "let looks = 0;",
    'const look = async () => { looks++; return "ein Haus"; };',
    "const print = (seen) => process.stdout.write(JSON.stringify({ ...seen, looks }));",
    "const say = (said) => print({ said });",
    "try {",
    ...lines.filter((line) => !isImport(line)),
    "} catch (error) { print({ error: String(error) }); }",
    "process.exit(0);",
  ].join("\n");
}

/** As their documents have it: LangChain by a switch, Agents by default. */
const PROGRAMS: Readonly<Record<ProgramSdk, string>> = {
  ...CHAT_PROGRAMS,
  "LangChain by Responses": CHAT_PROGRAMS.LangChain.replace("streamUsage: true", "useResponsesApi: true"),
  "OpenAI Agents by Responses": CHAT_PROGRAMS["OpenAI Agents"].replaceAll(
    "OpenAIChatCompletionsModel",
    "OpenAIResponsesModel",
  ),
};

/** What the user of the SDK sees. */
export async function askBy(sdk: ProgramSdk, question: Question): Promise<Said> {
  const child = spawn(
    process.execPath,
    ["--input-type=module", "-e", programOf(PROGRAMS[sdk]), JSON.stringify(question), FETCH],
    {
      cwd: CACHE,
      env: { ...inherited(), PATH: process.env["PATH"] },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: RUN_MS,
      killSignal: "SIGKILL",
    },
  );
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if (stdout === "") throw new Error(`${sdk} said nothing: ${stderr}`);
  return SAID.parse(JSON.parse(stdout));
}
