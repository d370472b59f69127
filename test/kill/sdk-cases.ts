/**
 * `holdfast serve` with its line under stock SDKs with `holdfast/fetch`: the server is killed or stopped in the middle of an answer, and the user of the SDK
 * does nothing and sees nothing.
 *
 * The provider never says the same twice and stops at the stage until the signal is sent. So an answer that is not of one generation, and a second
 * request for it, cannot pass by luck: as many requests as answers is the whole check (G1, G6).
 */
import assert from "node:assert/strict";
import { holdfast } from "../../src/fetch/index.ts";
import { MODEL, type Place, type Said } from "../agent/models/providers/formats.ts";
import {
  FLAVOURS,
  type ScriptedProvider,
  scriptedProvider,
  varyingText,
} from "../agent/models/providers/scripted.ts";
import { type Act, begin, type Fields, frameText, listOf } from "../agent/models/providers/server.ts";
import type { Cleanup } from "../cleanup.ts";
import { until } from "../e2e/rig.ts";
import { recorded, USERS } from "../fetch/users.ts";
import { Served } from "./served-line.ts";

export const SIGNALS = ["SIGKILL", "SIGTERM", "SIGKILL of the group"] as const;

/** Where the provider stops, in an answer of words (`text`, `first`, `finish`) or in a tool loop. */
export const SDK_STAGES = [
  "first",
  "text",
  "finish",
  /** In the first answer of a tool loop. */
  "arguments",
  /** In its second answer: before the first content, and in the text. */
  "second first",
  "second text",
] as const;

export interface SdkCase {
  readonly sdk: string;
  readonly signal: (typeof SIGNALS)[number];
  readonly stage: (typeof SDK_STAGES)[number];
  /** Of the text: said and read when the signal comes. */
  readonly words: number;
  /** Whether the provider continues while there is no server, or waits for the next one. */
  readonly isDeafToIt: boolean;
}

export interface SdkOutcome {
  readonly answers: number;
  readonly requests: number;
  readonly said: string;
  readonly wanted: string;
  /** From the signal to the whole answer, start of the server included. */
  readonly silentMs: number;
}

export function sdkCaseName({ sdk, signal, stage, words, isDeafToIt }: SdkCase): string {
  const where = stage.endsWith("text") ? `${stage}, behind ${words} words` : stage;
  return `${sdk}, ${signal} at ${where}, the provider ${isDeafToIt ? "continues meanwhile" : "waits"}`;
}

const PLACES: Readonly<Record<SdkCase["stage"], Place | undefined>> = {
  first: undefined,
  text: "text",
  finish: "finish",
  arguments: "arguments",
  "second first": undefined,
  "second text": "text",
};

const LOOKING = "I look — größer. ";
const piecesOf = (text: string): readonly string[] => text.split(/(?<= )/u);

function saidBy(call: number, messages: readonly Fields[], isLoop: boolean): Said {
  const isAsked = messages.at(-1)?.["role"] === "user";
  return isLoop && isAsked
    ? { text: piecesOf(LOOKING), calls: [{ name: "look", args: { at: varyingText(call) } }] }
    : { thinking: ["Which way ", "is it? "], text: piecesOf(varyingText(call)) };
}

/** One server for many cases: started again after each, on the same disk. */
export class SdkRig {
  readonly #provider: ScriptedProvider;
  readonly #served: Served;
  #act: Act = () => assert.fail("no case is under way");

  private constructor(t: Cleanup, provider: ScriptedProvider) {
    this.#provider = provider;
    this.#served = new Served(t, provider.config);
  }

  static async begin(t: Cleanup): Promise<SdkRig> {
    const script = (): Act => (response, asked) => rig.#act(response, asked);
    const rig: SdkRig = new SdkRig(t, await scriptedProvider(t, FLAVOURS.chat, { script }));
    await rig.#served.start();
    return rig;
  }

  async run(one: SdkCase): Promise<SdkOutcome> {
    const { sdk, signal, stage, words, isDeafToIt } = one;
    const isLoop = stage.startsWith("second") || stage === "arguments";
    const stopsAt = stage.startsWith("second") ? 2 : 1;
    const before = this.#provider.calls.length;
    const reached = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const place = PLACES[stage];
    this.#act = async (response, { body }) => {
      const total = this.#provider.calls.length;
      const messages = listOf(body["messages"]);
      const frames = FLAVOURS.chat.format.frames(saidBy(total, messages, isLoop));
      const at = frames.findIndex((frame) => frame.place === place);
      const stop =
        total - before === stopsAt ? (place === undefined ? 0 : at + (place === "text" ? words : 1)) : -1;
      if (stop !== 0) begin(response);
      for (const [index, { data }] of [...frames, { data: undefined }].entries()) {
        if (index === stop) {
          reached.resolve();
          await release.promise;
          if (!response.headersSent) begin(response);
        }
        if (data !== undefined) response.write(frameText(data));
      }
      response.end();
    };
    const shown = Promise.withResolvers<void>();
    const wantedFirst = this.#shownBefore(one, before + stopsAt);
    let text = "";
    const onText = (piece: string): void => {
      text += piece;
      if (text.endsWith(wantedFirst)) shown.resolve();
    };
    if (wantedFirst === "") shown.resolve();
    let known = this.#answersKept();
    const baseURL = `${this.#served.url}/v1`;
    const { fetch, bodies } = recorded(holdfast({ baseURL }));
    const user = USERS[sdk];
    assert.ok(user !== undefined, sdk);
    const answer = user({
      baseURL,
      apiKey: this.#served.apiKey,
      model: `local/${MODEL}`,
      question: `Which way is the wind? ${before}`,
      fetch,
      isStreamed: true,
      look: async () => {
        known = this.#answersKept();
        return "a house";
      },
      onText,
    });
    const early = answer.then(() => assert.fail(`it was over too early: ${sdkCaseName(one)}`));
    await Promise.race([Promise.all([reached.promise, shown.promise]), early]);
    // The model is asked while the request is on its way to the disk: a kill before it is there costs the call again.
    await until(() => !this.#answersKept().isSubsetOf(known), "the request is on the disk");
    const killedMs = performance.now();
    const isGone = this.#send(signal);
    if (isDeafToIt) release.resolve();
    await isGone;
    await this.#served.start();
    release.resolve();
    const said = await answer;
    const silentMs = performance.now() - killedMs;
    const requests = this.#provider.calls.length - before;
    const answers = isLoop ? 2 : 1;
    const frames = ['"role":"assistant"', '"usage":{', "data: [DONE]"];
    for (const body of bodies)
      for (const part of frames) assert.equal(body.split(part).length - 1, 1, `${part} ${sdkCaseName(one)}`);
    assert.equal(bodies.length, answers, sdkCaseName(one));
    return { answers, requests, said, wanted: varyingText(before + answers), silentMs };
  }

  /** Model calls that the server of the moment has read again and not made again. */
  async savedByLine(): Promise<number> {
    const counted = /^holdfast_provider_calls_saved_total\{.*how="line"\} (\d+)$/m;
    return Number(counted.exec(await this.#served.metrics())?.[1] ?? 0);
  }

  #answersKept(): ReadonlySet<string> {
    return new Set(this.#served.rowsOf("gateway_responses"));
  }

  async #send(signal: SdkCase["signal"]): Promise<void> {
    if (signal === "SIGKILL of the group") return this.#served.killGroup();
    await this.#served.signal(signal);
    await this.#served.exit;
  }

  /** What the user has read last when the signal comes; the arguments of a call are not shown before the step is complete. */
  #shownBefore({ stage, words }: SdkCase, call: number): string {
    if (stage.endsWith("first")) return "";
    if (stage === "arguments") return LOOKING;
    const pieces = piecesOf(varyingText(call));
    return (stage === "finish" ? pieces : pieces.slice(0, words)).join("");
  }
}

export function checkSdkCase(one: SdkCase, { answers, requests, said, wanted }: SdkOutcome): void {
  assert.equal(said, wanted, `another answer: ${sdkCaseName(one)}`);
  assert.equal(requests, answers, `requests: ${sdkCaseName(one)}`);
}
