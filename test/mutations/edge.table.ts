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
        from: "if (!isIPv6(address)) return address;",
        to: "if (address !== undefined) return address;",
      },
    ],
  },
];
