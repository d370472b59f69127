/**
 * The clients that `holdfast setup` knows: where each keeps its settings, and what pointing it at the gateway means there.
 *
 * A client is an entry of the table. What is done with its file (a backup first, an undo byte for byte) is the same for all, in `../setup.ts`.
 */
import type { Machine } from "../../node/machine.ts";
import { CLAUDE } from "./claude.ts";
import { CODEX } from "./codex.ts";
import { OPENCODE } from "./opencode.ts";

/** What a client has to know. */
export interface GatewaySettings {
  /** Without a path. */
  readonly url: string;
  readonly apiKey: string;
  readonly model: string;
}

export interface ClientSetup {
  /** For people. */
  readonly title: string;
  readonly path: (machine: Pick<Machine, "env" | "home">) => string;
  /** The text of the file with these settings in it, and all else as it was; undefined: there is no file. Throws when the text is not the client's. */
  readonly put: (before: string | undefined, settings: GatewaySettings) => string;
  /** The settings that the text has; undefined: not all of them. */
  readonly found: (text: string) => GatewaySettings | undefined;
  /** The text without them, for a file that was changed since; where `before` had others, those are there again. */
  readonly taken: (text: string, before: string | undefined) => string;
}

export const CLIENTS: Readonly<Record<string, ClientSetup>> = {
  claude: CLAUDE,
  codex: CODEX,
  opencode: OPENCODE,
};

/** What becomes of a client's file when the setup is undone. */
type Undone =
  /** As it was, byte for byte; undefined: there was none. */
  | { readonly kind: "restored"; readonly text: string | undefined }
  /** It was changed since: only the settings are taken out. */
  | { readonly kind: "edited"; readonly text: string }
  | { readonly kind: "gone" };

/** `now`: the file as it is; `before`: as it was before the setup; undefined: no file. */
export function undone(client: ClientSetup, now: string | undefined, before: string | undefined): Undone {
  if (now === undefined) return { kind: "gone" };
  const settings = client.found(now);
  if (settings !== undefined && client.put(before, settings) === now)
    return { kind: "restored", text: before };
  return { kind: "edited", text: client.taken(now, before) };
}
