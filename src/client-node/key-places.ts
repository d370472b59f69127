/**
 * The places where a home key may be kept between two starts: the keyring, or a file apart from the data.
 *
 * A place tells apart that it has no key and that it cannot be asked, since only the first allows to
 * make one.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { HoldfastError, messageOf } from "../protocol/errors.ts";
import { KEY_BYTES } from "../sealing/index.ts";
import type { Keyring } from "./keyring.ts";
import { makePrivateDirectory, readPrivateFile, writeOnce } from "./private-files.ts";

type KeyFound =
  | { readonly kind: "found"; readonly homeKey: Uint8Array }
  | { readonly kind: "none" }
  | { readonly kind: "unavailable"; readonly reason: string };

type KeyKept = { readonly kind: "written" } | { readonly kind: "refused"; readonly reason: string };

export interface KeyPlace {
  /** For people. */
  readonly name: string;
  read(): Promise<KeyFound>;
  write(homeKey: Uint8Array): Promise<KeyKept>;
}

/** Exactly 32 bytes; says what it should have been, never what it was (E4). */
export function parseHomeKey(text: string, from: string): Uint8Array {
  const trimmed = text.trim();
  const homeKey = new Uint8Array(Buffer.from(trimmed, "base64url"));
  const isExact = Buffer.from(homeKey).toString("base64url") === trimmed.replace(/=+$/, "");
  if (!isExact || homeKey.length !== KEY_BYTES) {
    throw new HoldfastError(
      "invalid_argument",
      `${from} must be ${KEY_BYTES} bytes in base64url (43 characters); it is something else. ` +
        `Make one with: node -p "crypto.randomBytes(32).toString('base64url')"`,
    );
  }
  return homeKey;
}

export function keyringPlace(keyring: Keyring, scopeId: string): KeyPlace {
  return {
    name: "the system's keyring",
    async read() {
      const answer = await keyring.read(scopeId);
      if (answer.kind === "found") {
        return {
          kind: "found",
          homeKey: parseHomeKey(answer.secret, "the home key in the system's keyring"),
        };
      }
      return answer.kind === "written" ? { kind: "none" } : answer;
    },
    async write(homeKey) {
      const text = Buffer.from(homeKey).toString("base64url");
      const written = await keyring.write(scopeId, text);
      if (written.kind !== "written") return { kind: "refused", reason: reasonOf(written) };
      // Believed only when it can be read back.
      const kept = await keyring.read(scopeId);
      if (kept.kind === "found" && kept.secret === text) return { kind: "written" };
      return { kind: "refused", reason: "it does not give back what it was given" };
    },
  };
}

function reasonOf(answer: { readonly kind: string; readonly reason?: string }): string {
  return answer.reason ?? answer.kind;
}

/** `sealed`: the directory whose data is sealed under the key. */
export function filePlace(
  directory: string,
  scopeId: string,
  sealed: string,
  onNotice: (message: string) => void,
): KeyPlace {
  const path = join(directory, scopeId);
  return {
    name: path,
    async read() {
      const found = readPrivateFile(path);
      if (found === undefined) return { kind: "none" };
      if (found.wasOpen) {
        onNotice(
          `The home key in ${path} could be read by other users; it is closed to them now. If they may have read it, remove the scope's directory and this file.`,
        );
      }
      return { kind: "found", homeKey: parseHomeKey(found.text, `the home key in ${path}`) };
    },
    async write(homeKey) {
      let isNew: boolean;
      try {
        makePrivateDirectory(directory);
        isNew = writeOnce(path, `${Buffer.from(homeKey).toString("base64url")}\n`);
      } catch (error) {
        return { kind: "refused", reason: messageOf(error) };
      }
      if (!isNew) return { kind: "refused", reason: "there is a key already" };
      onNotice(
        `A new home key is in ${path} (mode 0600). It seals the data in ${sealed}, which cannot be read without it: keep a copy. With both, anyone can read the data.`,
      );
      return { kind: "written" };
    },
  };
}

/** Of a rotation. One that is there already was never asked for by a database. */
export function writeNextKey(directory: string, name: string, homeKey: Uint8Array): void {
  const path = join(directory, name);
  makePrivateDirectory(directory);
  rmSync(path, { force: true });
  if (!writeOnce(path, `${Buffer.from(homeKey).toString("base64url")}\n`))
    throw new HoldfastError("busy", `another process writes ${path}`);
}
