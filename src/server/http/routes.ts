/**
 * What is served under which path, and by which methods.
 */
import type { CallKind } from "../../transport/connect/formats.ts";
import type { RequestKind } from "./http-counters.ts";

export interface Route {
  readonly kind: RequestKind;
  readonly methods: readonly string[];
  /** For calls of a service: how Connect writes them. */
  readonly call?: CallKind;
}

const READ = ["GET", "HEAD"] as const;
const STREAMING = { methods: ["POST"], call: "stream" } as const;
const UNARY = { methods: ["POST"], call: "unary" } as const;

export const ROUTES: ReadonlyMap<string, Route> = new Map<string, Route>([
  ["/", { kind: "page", methods: READ }],
  // What the page fetches when it first shows code.
  ["/languages.json", { kind: "page", methods: READ }],
  // By a one-time token of a link that this server has printed.
  ["/sign-in", { kind: "sign_in", methods: ["POST"] }],
  ["/health", { kind: "health", methods: READ }],
  // Where Claude Code looks whether its server is there.
  ["/api/hello", { kind: "health", methods: READ }],
  ["/ready", { kind: "ready", methods: READ }],
  ["/metrics", { kind: "metrics", methods: READ }],
  ["/holdfast.v1.StreamService/Stream", { kind: "stream", ...STREAMING }],
  ["/holdfast.v1.StreamService/Attach", { kind: "attach", ...STREAMING }],
  ["/holdfast.v1.StreamService/Append", { kind: "append", ...UNARY }],
  ["/holdfast.v1.StreamService/Listen", { kind: "listen", ...STREAMING }],
  ["/holdfast.v1.BlobService/Put", { kind: "blob_put", ...STREAMING }],
  ["/holdfast.v1.BlobService/Get", { kind: "blob_get", ...STREAMING }],
  ["/holdfast.v1.BlobService/Forget", { kind: "blob_forget", ...STREAMING }],
]);

/** A 404 for another path lists them. */
export const SERVED_PATHS: readonly string[] = Object.freeze([...ROUTES.keys()]);

/** The front page of a server that has no other. */
export const NOTICE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Holdfast</title>
<h1>Holdfast</h1>
<p>This is a Holdfast server: it keeps AI-agent streams alive over lost connections and restarts.</p>
<p>Clients speak to it with an API key; see docs/PROTOCOL.md of the holdfast package, and docs/OPERATIONS.md for
/health, /ready and /metrics.</p>
</html>
`;
