/** What a rig needs of the test that uses it: to be told when it is over. A program that is no test has its own. */
export interface Cleanup {
  after(act: () => void | Promise<void>): void;
}
