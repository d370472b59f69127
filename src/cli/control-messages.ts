/**
 * What a running server tells the commands of its machine, as both halves of the control channel know it.
 */
import * as z from "../protocol/rules.ts";

/** The file by which commands find the channel; a killed server leaves it behind. */
export const CONTROL = z.object({
  /** Of the channel. */
  url: z.string(),
  token: z.string(),
  pid: z.number(),
  /** Where the server itself listens. */
  server: z.string(),
});
export type ControlFile = Readonly<z.output<typeof CONTROL>>;

/** What a server tells of itself. */
export const SERVER_ABOUT = z.object({
  url: z.string(),
  pid: z.number(),
  /** A chat has started it in the background: it ends by itself, and makes room for a server that a person starts. */
  endsWhenIdle: z.boolean(),
  models: z.readonly(z.array(z.object({ id: z.string(), isDefault: z.boolean() }))),
  /** Its providers that do not answer, and why. */
  troubles: z.readonly(z.array(z.string())),
});
export type ServerAbout = Readonly<z.output<typeof SERVER_ABOUT>>;

/** The page's address with a token that signs in one browser, once; empty where no browser of this machine reaches the server by loopback. */
export const PAGE_LINK = z.object({ link: z.string() });

/** An open session of the gateway, without what was said in it. */
export const SESSION_INFO = z.object({
  streamId: z.string(),
  principal: z.string(),
  model: z.string(),
  state: z.string(),
  /** Tool calls that it waits for. */
  pending: z.number(),
  updatedMs: z.number(),
});
export type SessionInfo = Readonly<z.output<typeof SESSION_INFO>>;
