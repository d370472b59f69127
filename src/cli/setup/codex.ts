/**
 * Codex: a provider in its `config.toml`, and the lines that choose it.
 *
 * TOML has its plain members before its first table, and none of them twice. So what chooses the model stands at the beginning, the provider at the end, each
 * between marks, and lines that said something else are put behind a mark of ours until the setup is undone.
 */
import { join } from "node:path";
import { failure } from "../../node/failures.ts";
import type { ClientSetup, GatewaySettings } from "./clients.ts";

const [BEGIN, END, OFF] = [
  "# holdfast setup: begin",
  "# holdfast setup: end",
  "# before holdfast: ",
] as const;
const BLOCKS = new RegExp(`^${BEGIN}\n[^]*?^${END}\n`, "gm");
const CHOICE = /^[ \t]*"?(?:model|model_provider)"?[ \t]*=/;
const TABLE = /^[ \t]*\[/;
const OWN_TABLE = /^[ \t]*\[[ \t]*model_providers[ \t]*\.[ \t]*"?holdfast"?[ \t]*\]/m;

export const CODEX: ClientSetup = {
  title: "Codex",
  path: ({ env, home }) => join(env["CODEX_HOME"] ?? join(home, ".codex"), "config.toml"),
  put: (before, settings) => {
    const plain = withoutOurs(before ?? "");
    if (OWN_TABLE.test(plain))
      throw failure("Codex's config.toml has a provider holdfast of its own; give it another name first");
    const rest = plain === "" || plain.endsWith("\n") ? plain : `${plain}\n`;
    return block(choiceOf(settings)) + switchedOff(rest) + block(providerOf(settings));
  },
  found: (text) => {
    const ours = (text.match(BLOCKS) ?? []).join("");
    const valueOf = (name: string): string | undefined => {
      const [, value] = new RegExp(`^${name} = (".*")$`, "m").exec(ours) ?? [];
      return value === undefined ? undefined : String(JSON.parse(value));
    };
    const [, key] = /"Bearer ([^"]+)"/.exec(ours) ?? [];
    const [url, model] = [valueOf("base_url"), valueOf("model")];
    if (url === undefined || model === undefined || key === undefined) return undefined;
    return { url: url.replace(/\/v1$/, ""), apiKey: key, model };
  },
  taken: (text) => withoutOurs(text),
};

function block(lines: readonly string[]): string {
  return [BEGIN, ...lines, END, ""].join("\n");
}

/** A JSON text is a TOML text. */
function choiceOf({ model }: GatewaySettings): readonly string[] {
  return [`model = ${JSON.stringify(model)}`, 'model_provider = "holdfast"'];
}

function providerOf({ url, apiKey }: GatewaySettings): readonly string[] {
  return [
    "[model_providers.holdfast]",
    'name = "Holdfast"',
    `base_url = ${JSON.stringify(`${url}/v1`)}`,
    'wire_api = "responses"',
    `http_headers = { Authorization = ${JSON.stringify(`Bearer ${apiKey}`)} }`,
  ];
}

/** Other choices of a model, before the first table. */
function switchedOff(text: string): string {
  const lines = text.split("\n");
  const tables = lines.findIndex((line) => TABLE.test(line));
  const end = tables === -1 ? lines.length : tables;
  return lines.map((line, at) => (at < end && CHOICE.test(line) ? OFF + line : line)).join("\n");
}

function withoutOurs(text: string): string {
  return text.replaceAll(BLOCKS, "").replaceAll(new RegExp(`^${OFF}`, "gm"), "");
}
