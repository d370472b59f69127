/**
 * Real clients over cuts and kills at named places of a tool loop's two answers, with `holdfast/fetch` and without: what the user sees, and how often the model
 * was called.
 */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import type { ModelCall } from "../../src/agent/index.ts";
import { holdfast } from "../../src/fetch/index.ts";
import { behind, type Place } from "../gateway/cable.ts";
import { lastTold, type PacedCall, PacedModel } from "../gateway/paced-model.ts";
import { World } from "../gateway/world.ts";
import { ALICE_KEY } from "../server/http/rig.ts";
import { BASH_LOOKS, OpencodeUser } from "./opencode-user.ts";
import { askBy, PROGRAM_SDKS, RESPONSES_SDKS, type Said } from "./sdk-programs.ts";
import { USERS } from "./users.ts";

export const SEEN = "Es ist größer – 大きい家. Mehr ist es nicht.";
export const OPENCODE = "OpenCode";
export const CLIENTS = [...Object.keys(USERS), ...PROGRAM_SDKS, OPENCODE];
const MODEL = "paced/model";
/** As the SDKs have it by default. */
const RETRIES = 2;

export interface ClientPlace {
  readonly name: string;
  readonly at: string;
  readonly place: Place;
}

const latin = (text: string): string => Buffer.from(text).toString("latin1");
const within = (name: string, ...texts: readonly string[]): readonly ClientPlace[] =>
  texts.map((text) => ({ name, at: `behind ${JSON.stringify(text)}`, place: behind(latin(text)) }));
const inLetter = (before: string, letter: string, bytes: number): ClientPlace => {
  const text = latin(before) + latin(letter).slice(0, bytes);
  return { name: "in a letter", at: `${bytes} byte(s) into ${letter}`, place: behind(text) };
};

/** Three of each kind. What is in the first answer comes first in what is received. */
export const PLACES: readonly ClientPlace[] = [
  ...[0, 20, 90].map((bytes) => ({
    name: "before the headers' end",
    at: `behind ${bytes} bytes`,
    place: () => bytes,
  })),
  ...within("in the first frame", '"role"', '"role":"assis', '"content":""'),
  ...within("in the text", '"Ich ', '"sehe ', '"größere '),
  inLetter("gr", "ö", 1),
  inLetter("", "大", 1),
  inLetter("", "大", 2),
  ...within("in a tool call", '"tool_calls":[', '"name":"', '"arguments":"{'),
  ...within(
    "between finish_reason and [DONE]",
    '"finish_reason":"tool_calls"',
    '"finish_reason":"stop"',
    "data: [DO",
  ),
];

export const BREAKS = ["end", "reset", "kill"] as const;

export interface ClientCase {
  readonly client: string;
  readonly hasFetch: boolean;
  readonly place: ClientPlace;
  readonly how: (typeof BREAKS)[number];
}

export interface ClientOutcome extends Said {
  readonly calls: number;
}

const aMoment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

/** By the tool that the client has. */
function looksBy({ tools }: ModelCall): PacedCall {
  return tools.some(({ name }) => name === "look") ? { tool: "look", args: { at: "ä" } } : BASH_LOOKS;
}

function looking(): PacedModel {
  return new PacedModel((call) =>
    lastTold(call).startsWith("Look")
      ? ["Ich ", aMoment, "sehe ", aMoment, "größere ", aMoment, looksBy(call)]
      : ["Es ist ", aMoment, "größer ", aMoment, "– 大きい家. ", aMoment, "Mehr ist es nicht."],
  );
}

export class ClientWorld {
  readonly #world: World;
  readonly #opencode: (hasFetch: boolean) => Promise<OpencodeUser>;
  #asked = 0;

  private constructor(world: World, opencode: (hasFetch: boolean) => Promise<OpencodeUser>) {
    this.#world = world;
    this.#opencode = opencode;
  }

  /** `binary`: of OpenCode. */
  static async begin(t: TestContext, binary?: string): Promise<ClientWorld> {
    const world = await World.begin(t, looking());
    const users = new Map<boolean, Promise<OpencodeUser>>();
    return new ClientWorld(world, (hasFetch) => {
      assert.ok(binary !== undefined, "OpenCode is not there");
      const settings = { binary, baseURL: `${world.url}/v1`, apiKey: ALICE_KEY, model: MODEL, hasFetch };
      const user = users.get(hasFetch) ?? OpencodeUser.begin(t, settings);
      users.set(hasFetch, user);
      return user;
    });
  }

  async run({ client, hasFetch, place, how }: ClientCase): Promise<ClientOutcome> {
    const world = this.#world;
    const before = world.model.calls.length;
    if (client === OPENCODE) await this.#opencode(hasFetch);
    let isThere = false;
    const reached =
      how === "kill" ? world.cable.hasCome(place.place) : world.cable.cutNextAt(place.place, how);
    const happened = reached.then(() => {
      isThere = true;
      return how === "kill" ? world.restart() : undefined;
    });
    const said = await this.#ask(client, hasFetch, `Look ${++this.#asked}`);
    assert.ok(isThere, `${client}: it was never ${place.name}, ${place.at}`);
    // A client may have all of its answer before the server is gone.
    await happened;
    return { ...said, calls: world.model.calls.length - before };
  }

  async #ask(client: string, hasFetch: boolean, question: string): Promise<Said> {
    if (client === OPENCODE) return (await this.#opencode(hasFetch)).ask(question);
    const baseURL = `${this.#world.url}/v1`;
    const asking = { baseURL, apiKey: ALICE_KEY, model: MODEL, question };
    const program = [...PROGRAM_SDKS, ...RESPONSES_SDKS].find((sdk) => sdk === client);
    if (program !== undefined) return askBy(program, { ...asking, hasFetch });
    let looks = 0;
    const look = async (): Promise<string> => {
      looks++;
      return "ein Haus";
    };
    const fetch = hasFetch ? holdfast({ baseURL }) : globalThis.fetch;
    const user = USERS[client];
    assert.ok(user !== undefined, client);
    return user({ ...asking, fetch, isStreamed: true, look, maxRetries: RETRIES }).then(
      (said) => ({ said, looks }),
      (error: unknown) => ({ error: String(error), looks }),
    );
  }
}
