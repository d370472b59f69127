/**
 * The child process that asks the keyring: one request on standard input, one answer on standard output.
 *
 * See `keyring.ts` for why it is a process. The library is an optional dependency: where it was not
 * installed there is no keyring.
 */
import { messageOf } from "../protocol/errors.ts";
import { text } from "node:stream/consumers";
import type { KeyringAnswer } from "./keyring.ts";

const SERVICE = "holdfast";

async function answer(request: unknown): Promise<KeyringAnswer> {
  if (typeof request !== "object" || request === null || !("name" in request)) {
    return { kind: "unavailable", reason: "the request makes no sense" };
  }
  const { AsyncEntry } = await import("@napi-rs/keyring");
  const entry = new AsyncEntry(SERVICE, String(request.name), { linux: { store: "secret-service" } });
  if ("secret" in request && typeof request.secret === "string") {
    await entry.setPassword(request.secret);
    return { kind: "written" };
  }
  const secret = await entry.getPassword();
  return secret === null || secret === undefined ? { kind: "none" } : { kind: "found", secret };
}

const request: unknown = JSON.parse(await text(process.stdin));
const said = await answer(request).catch((error: unknown): KeyringAnswer => ({
  kind: "unavailable",
  reason: messageOf(error),
}));
process.stdout.write(JSON.stringify(said));
