/**
 * The options that every client takes, in Node and in browsers, as they are checked.
 */
import * as z from "../protocol/rules.ts";
import type { BlobCalls, Connect } from "../transport/transport.ts";
import { callable, custom, having, httpUrl, whole } from "../protocol/checked.ts";
import { KEY_BYTES } from "../sealing/index.ts";
import type { ApiKey } from "./api-key.ts";
import type { OnStall } from "./index.ts";
import { SWITCH_FIELDS } from "./stream-options.ts";

export const CLIENT_FIELDS = {
  ...SWITCH_FIELDS,
  url: z.optional(httpUrl(": give the API key as apiKey")),
  // Looked at by `credentialsOf`, which never repeats it.
  apiKey: z.optional(z.custom<ApiKey>()),
  homeKey: z.optional(
    custom<Uint8Array>(
      (key) => key instanceof Uint8Array && key.length === KEY_BYTES,
      `must be a Uint8Array of ${KEY_BYTES} bytes`,
      { isHidden: true },
    ),
  ),
  connect: z.optional(callable<Connect>()),
  blobs: z.optional(having<BlobCalls>(["put", "get"])),
  resumesMax: z.optional(whole(1)),
  onNotice: z.optional(callable<(message: string) => void>()),
  onBug: z.optional(callable<(bug: unknown) => void>()),
  onStall: z.optional(callable<OnStall>()),
};
