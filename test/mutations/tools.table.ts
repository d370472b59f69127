/** Mends of the tools and of what a person is shown of them, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "in the sandbox root writes the kernel's settings under /proc",
    file: "test/tools/sandbox.test.ts",
    test: "for root /proc is mounted to be read",
    patches: [
      {
        file: "src/tools/sandbox.ts",
        from: '...(isRoot ? ["--remount-ro", "/proc"] : []),',
        to: "",
      },
    ],
  },
  {
    name: "in the sandbox root makes namespaces of its own",
    file: "test/tools/sandbox.test.ts",
    test: "for root /proc is mounted to be read",
    patches: [
      {
        file: "src/tools/sandbox.ts",
        from: "...(hasNamespaces ? [] : NO_NAMESPACES),",
        to: "",
      },
    ],
  },
];
