/**
 * The child process that asks the keyring: one request on standard input, one answer on standard output.
 *
 * See `keyring.ts` for why it is a process. The library is an optional dependency: where it was not
 * installed there is no keyring.
 */
import { messageOf } from "../protocol/errors.ts";
import { text } from "node:stream/consumers";
import { fieldsOf } from "../protocol/fields.ts";
import type { KeyringAnswer } from "./keyring.ts";

const SERVICE = "holdfast";

async function answer(request: unknown): Promise<KeyringAnswer> {
  const { name, secret } = fieldsOf(request);
  const { AsyncEntry } = await import("@napi-rs/keyring");
  const entry = new AsyncEntry(SERVICE, String(name), { linux: { store: "secret-service" } });
  if (typeof secret === "string") {
    await entry.setPassword(secret);
    return { kind: "written" };
  }
  const kept = (await entry.getPassword()) ?? undefined;
  return kept === undefined ? { kind: "none" } : { kind: "found", secret: kept };
}

const request: unknown = JSON.parse(await text(process.stdin));
const said = await answer(request).catch((error: unknown): KeyringAnswer => ({
  kind: "unavailable",
  reason: messageOf(error),
}));
process.stdout.write(JSON.stringify(said));
