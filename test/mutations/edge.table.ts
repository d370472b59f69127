/** Mends of the HTTP edge, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "E1: failed sign-ins are counted for each address of an IPv6 network apart",
    file: "test/server/http/sign-in.test.ts",
    test: "E1: the addresses of one IPv6 network count together",
    patches: [
      {
        file: "src/server/http/sign-in.ts",
        from: 'if (!address.includes(":") || !isIPv6(address)) return address;',
        to: "if (address !== undefined) return address;",
      },
    ],
  },
  {
    name: "E1: guesses at the same time are all looked at",
    file: "test/server/http/sign-in.test.ts",
    test: "E1: guesses at the same time are limited as guesses in a row are",
    patches: [
      {
        file: "src/server/http/sign-in-tries.ts",
        from: "        if (waitMs === 0) {",
        to: "        if (waitMs === 0 || address.checking > 0) {",
      },
    ],
  },
  {
    name: "E1: each refused sign-in makes the address wait longer",
    file: "test/server/http/sign-in.test.ts",
    test: "E1: a refusal owes nothing, however many there were",
    patches: [
      {
        file: "src/server/http/sign-in-tries.ts",
        from: "const [left, { waitMs }] = budget.take(",
        to: "const [left, { waitMs }] = budget.spend(",
      },
    ],
  },
  {
    name: "a good sign-in uses up a try",
    file: "test/server/http/sign-in.test.ts",
    test: "many clients of one address that sign in for the first time at once are all let in",
    patches: [
      {
        file: "src/server/http/sign-in-tries.ts",
        from: "if (!hasFailed) address.budget = budget.giveBack(address.budget);",
        to: "",
      },
    ],
  },
  {
    name: "E7: an Authorization of another service hides a good API key",
    file: "test/gateway/http/routes.test.ts",
    test: "E7: over HTTP/1 an API key that is good is found beside an Authorization that is not",
    patches: [
      {
        file: "src/server/http/sign-in.ts",
        from: "if (others.length === 0 || !isRefusal(cause)) throw cause;",
        to: "if (others.length === 0 || true) throw cause;",
      },
    ],
  },
  {
    name: "E7: an Authorization that is no API key hides a good one",
    file: "test/gateway/http/routes.test.ts",
    test: "E7: over HTTP/1 an API key that is good is found beside an Authorization that is not",
    patches: [
      {
        file: "src/server/http/credentials.ts",
        from: `...bearerTokens(exchange.header("authorization")), ...own])`,
        to: `...bearerTokens(exchange.header("authorization")), ...(exchange.header("authorization") === undefined ? own : [])])`,
      },
    ],
  },
  {
    name: "E7: Azure's header is no API key",
    file: "test/gateway/http/routes.test.ts",
    test: "E7: over HTTP/1 an API key that is good is found beside an Authorization that is not",
    patches: [
      {
        file: "src/server/http/credentials.ts",
        from: `["x-api-key", "api-key"]`,
        to: `["x-api-key"]`,
      },
    ],
  },
  {
    name: "F2: what a packed body becomes is not charged",
    file: "test/gateway/http/bodies.test.ts",
    test: "F2: over HTTP/1 what a packed body becomes is charged",
    patches: [
      {
        file: "src/gateway/http/json-body.ts",
        from: "unpack(sent, packing, bodyBytesMax, take)",
        to: "unpack(sent, packing, bodyBytesMax, () => undefined)",
      },
    ],
  },
  {
    name: "F2: a body is charged only until it is parsed",
    file: "test/gateway/http/bodies.test.ts",
    test: "F2: over HTTP/1 a body is charged until the request is accepted",
    patches: [
      {
        file: "src/gateway/http/gateway-http.ts",
        from: "    const { request, form, atOnce,",
        to: "    release();\n    const { request, form, atOnce,",
      },
    ],
  },
  {
    name: "F2: a large body is parsed at once, and everything else waits",
    file: "test/gateway/http/bodies.test.ts",
    test: "F2: while a large body is parsed the others get their turn after every slice",
    patches: [
      {
        file: "src/gateway/http/json-body.ts",
        from: "bytes.length <= AT_ONCE_BYTES",
        to: "bytes.length > 0",
      },
    ],
  },
  {
    name: "a reader in slices cuts a text within an escape",
    file: "test/gateway/http/json-reader.test.ts",
    test: "any JSON is read as JSON.parse reads it, in slices of any size",
    patches: [
      {
        file: "src/gateway/http/json-reader.ts",
        from: "at += bytes[at + 1] === LOWER_U ? 6 : 2;",
        to: "at += 2;",
      },
    ],
  },
  {
    name: "E2: an append finds the connection of another principal",
    file: "test/server/http/foreign-ids.test.ts",
    test: "E2: over HTTP/1 another principal's stream is answered as one that does not exist, call by call",
    patches: [
      {
        file: "src/transport/node/connection-table.ts",
        from: "JSON.stringify([principal, idempotencyKey, tag,",
        to: "JSON.stringify([principal.slice(0, 0), idempotencyKey, tag,",
      },
    ],
  },
  {
    name: "E7: answers of the gateway that are open outlive their API key",
    file: "test/gateway/http/revoked.test.ts",
    test: "E7: over HTTP/1 a revoked API key ends its open answers, and no others",
    patches: [
      {
        file: "src/server/http/edge.ts",
        from: "pass.over = options.openCalls.add(token, pass.exchange);",
        to: "pass.over = () => undefined;",
      },
    ],
  },
  {
    name: "F2: a TLS handshake may take for ever",
    file: "test/server/http/tls.test.ts",
    test: "F2: a client that does not finish its TLS handshake is cut",
    patches: [
      {
        file: "src/transport/node/port.ts",
        from: `server.on("tlsClientError", (_error, socket) => socket.destroy());`,
        to: "",
      },
    ],
  },
  {
    name: "TLS: versions before 1.2 are spoken",
    file: "test/server/http/tls.test.ts",
    test: "TLS: versions before 1.2 are refused",
    patches: [
      {
        file: "src/transport/node/port.ts",
        from: `minVersion: "TLSv1.2" }`,
        to: `minVersion: "TLSv1", ciphers: "DEFAULT@SECLEVEL=0" }`,
      },
    ],
  },
  {
    name: "F2: a response is over and its request is waited for without end",
    file: "test/server/http/slow-clients.test.ts",
    test: "F2: over HTTP/2 who is refused before the body has come holds nothing by not ending it",
    patches: [
      {
        file: "src/transport/node/http2-exchange.ts",
        from: "this.#leaving = setTimeout(() => this.destroy(), this.#peer.lastBytesTimeoutMs).unref();",
        to: "",
      },
    ],
  },
];
