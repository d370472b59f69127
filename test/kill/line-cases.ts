/**
 * `holdfast serve` with its line and a provider that never says the same twice, killed at every stage of an answer.
 *
 * The provider stops at the stage until the kill is over. What has to come of it follows from what lived: where the line did, the answer is
 * the first generation's, for one request in all (G6).
 */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { fieldsIn } from "../../src/agent/models/line/line-wire.ts";
import { RETRY_CODES } from "../../src/gateway/openai/gateway-error.ts";
import { MODEL, type Place, type Said } from "../agent/models/providers/formats.ts";
import { FLAVOURS, scriptedProvider, varyingText } from "../agent/models/providers/scripted.ts";
import { type Act, begin, frameText } from "../agent/models/providers/server.ts";
import type { Cleanup } from "../cleanup.ts";
import { bodyOf, type Exchange, type Reply, user } from "../gateway/openai-user.ts";
import { Served } from "./served-line.ts";

export const STAGES = [
  /** The client has asked; the provider may not have heard of it. */
  "request",
  "first",
  "thinking",
  "text",
  "arguments",
  "finish",
  /** While the next server reads the call again. */
  "replay",
  /** While the server lets its calls end. */
  "drain",
] as const;
/** `term` is no kill: the server drains for less long than the answer takes, and ends by itself. */
export const KILLED = ["server", "line", "both", "group", "term"] as const;
export const PROVIDERS = ["chat", "responses", "claude", "google"] as const;
/** A streamed answer whose client sends the request again, or continues where it was; and one that is not streamed. */
export const CLIENTS = ["retry", "resume", "whole"] as const;

export interface LineCase {
  readonly provider: (typeof PROVIDERS)[number];
  readonly client: (typeof CLIENTS)[number];
  readonly killed: (typeof KILLED)[number];
  readonly stage: (typeof STAGES)[number];
}

export interface LineOutcome {
  readonly requests: number;
  readonly isWhole: boolean;
  readonly error: string | undefined;
  readonly said: string;
  readonly shown: string;
  /** From the kill to the first word that the client did not have. */
  readonly silentMs: number;
}

export function nameOf({ provider, client, killed, stage }: LineCase): string {
  return `${provider}, ${client}, ${killed} killed at ${stage}`;
}

/** Where the provider waits. */
const WAITS: Readonly<Record<LineCase["stage"], Place | undefined>> = {
  request: undefined,
  first: undefined,
  thinking: "thinking",
  text: "text",
  arguments: "arguments",
  finish: "finish",
  replay: "text",
  drain: "text",
};

const WORDS_FIRST = 3;

function saidBy(call: number, stage: LineCase["stage"]): Said {
  const args = { at: varyingText(call) };
  if (stage === "arguments") return { thinking: "hm", calls: [{ name: "look", args }] };
  return { thinking: ["Which way ", "is it? "], text: varyingText(call) };
}

/** Long enough that what was sent has been read, on a machine that is not idle; nothing depends on it. */
const SETTLE_MS = 250;
const TRIES_MAX = 40;

export async function runLineCase(t: Cleanup, one: LineCase): Promise<LineOutcome> {
  const { stage, killed, client } = one;
  const reached = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  let calls = 0;
  const flavour = FLAVOURS[one.provider];
  const act: Act = async (response) => {
    const call = ++calls;
    const frames = flavour.format.frames(saidBy(call, stage));
    const place = WAITS[stage];
    const first = frames.findIndex((frame) => frame.place === place);
    const until = place === undefined ? 0 : first + (place === "text" ? WORDS_FIRST : 1);
    if (call === 1 && until > 0) {
      begin(response);
      response.write(
        frames
          .slice(0, until)
          .map(({ data }) => frameText(data))
          .join(""),
      );
    }
    if (call === 1) reached.resolve();
    if (call === 1) await release.promise;
    if (!response.headersSent) begin(response);
    for (const { data } of frames.slice(call === 1 ? until : 0)) response.write(frameText(data));
    response.end();
  };
  const provider = await scriptedProvider(t, flavour, { script: () => act });
  const served = new Served(t, provider.config);
  await served.start();
  const body = bodyOf([user("Which way is the wind?")], {
    model: `local/${MODEL}`,
    stream: client !== "whole",
  });
  const headers = { "idempotency-key": `case-${Math.random()}` };
  const cut = served.ask(body, undefined, headers);
  if (stage !== "request") await reached.promise;
  if (WAITS[stage] === "text" && client !== "whole") await cut.until("number");
  else if (stage !== "request") await sleep(SETTLE_MS);
  if (stage === "replay") {
    await served.signal("SIGKILL");
    await served.start();
    const between = served.ask(body, undefined, headers);
    await sleep(2 * SETTLE_MS);
    between.hangUp();
  }
  if (stage === "drain") {
    await served.signal("SIGTERM");
    while (!(await served.isDraining()));
  }
  const killedMs = performance.now();
  if (killed === "both" || killed === "line") await served.killLine();
  // A second signal would end the calls.
  if (killed === "term" && stage !== "drain") await served.signal("SIGTERM");
  if (killed === "term") assert.equal(await served.exitCode(), 0);
  else if (killed === "group") await served.killGroup();
  else if (killed !== "line") await served.signal("SIGKILL");
  else if (stage === "drain") release.resolve();
  if (killed === "line" && stage === "drain") await served.exit;
  if (killed !== "line" || stage === "drain") await served.start();
  const shown =
    client === "whole" ? undefined : killed === "line" && stage !== "replay" ? undefined : await cut.reply();
  const resumePath = shown === undefined ? "" : await cut.resumePath();
  let silentMs = 0;
  for (let tries = 0; ; tries++) {
    assert.ok(tries < TRIES_MAX, `${nameOf(one)}: no answer: ${shown?.body}`);
    const isSame = killed === "line" && tries === 0 && stage !== "replay" && stage !== "drain";
    const isResumed = client === "resume" && resumePath !== "";
    const again = isSame
      ? cut
      : isResumed
        ? served.ask(undefined, resumePath, { "last-event-id": shown?.ids.at(-1) ?? "" })
        : served.ask(body, undefined, headers);
    // The kill is over when the next server, or the one that lives, has the request in hand.
    void sleep(SETTLE_MS).then(release.resolve);
    const reply = client === "whole" ? await wholeReply(again) : await again.reply();
    silentMs = performance.now() - killedMs;
    const before = isResumed && !isSame ? (shown?.text ?? "") : "";
    const said = before + reply.text + reply.calls.map(({ args }) => args).join("");
    if (reply.isWhole || isFinal(reply.error))
      return {
        requests: calls,
        isWhole: reply.isWhole,
        error: reply.error,
        said,
        shown: shown?.text ?? "",
        silentMs,
      };
    await sleep(SETTLE_MS);
  }
}

/** An error that says "ask again" is none of the answer's. */
function isFinal(error: string | undefined): boolean {
  return error !== undefined && !RETRY_CODES.some((code) => error.endsWith(` ${code}`));
}

/** A response that is not streamed, as if it were. */
async function wholeReply(
  exchange: Exchange,
): Promise<Pick<Reply, "text" | "calls" | "error" | "status" | "isWhole">> {
  const { status, body } = await exchange.json();
  const answer = fieldsIn(body);
  const { choices } = answer;
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
  const message = fieldsAt(choice, "message");
  const called: unknown = message["tool_calls"];
  const calls = (Array.isArray(called) ? called : []).map((call: unknown) => {
    const { name, arguments: args } = fieldsAt(call, "function");
    return { id: "", name: String(name), args: String(args) };
  });
  const text = typeof message["content"] === "string" ? message["content"] : "";
  const { type, code } = fieldsAt(answer, "error");
  const failed = typeof type === "string" ? `${type} ${typeof code === "string" ? code : ""}` : undefined;
  return { status, text, calls, error: failed, isWhole: status === 200 && choice !== undefined };
}

function fieldsAt(value: unknown, name: string): Readonly<Record<string, unknown>> {
  const given: object = typeof value === "object" && value !== null ? value : {};
  const found: unknown = Reflect.get(given, name);
  return typeof found === "object" && found !== null ? { ...found } : {};
}

/** The line lives: there is one generation. */
export function hasLine({ killed }: LineCase): boolean {
  return killed === "server" || killed === "group" || killed === "term";
}

/** What has to come of it. */
export function checkLineCase(one: LineCase, outcome: LineOutcome): void {
  const { requests, isWhole, said, shown } = outcome;
  const about = `${nameOf(one)}: ${JSON.stringify(outcome)}`;
  const texts = Array.from({ length: requests }, (_, at) => {
    const { text, calls } = saidBy(at + 1, one.stage);
    return calls === undefined ? String(text) : JSON.stringify(calls[0]?.args);
  });
  if (isWhole) assert.ok(texts.includes(said), `another answer: ${about}`);
  const { killed, stage, client } = one;
  if (hasLine(one)) {
    assert.ok(isWhole, about);
    assert.ok(said.startsWith(shown), `G1: ${about}`);
    assert.equal(requests, 1, about);
    return;
  }
  assert.ok(requests <= 2, about);
  // What an OpenAI stream has shown cannot be said anew by a model that varies: it ends with an error, and only a retry has another answer.
  const isShown = client !== "whole" && (WAITS[stage] === "text" || stage === "finish");
  // A retry behind a killed server has shown nothing.
  const isAnew = client === "retry" && killed === "both";
  assert.ok(isWhole || (isShown && !isAnew), about);
  if (client === "resume" && isWhole) assert.ok(said.startsWith(shown), `G1: ${about}`);
  if (killed === "line" && stage === "finish") assert.equal(requests, 1, about);
}
