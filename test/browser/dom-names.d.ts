/**
 * Names of the DOM that Playwright's types mention. Tests run in Node, whose types have no DOM, and use
 * none of them.
 */
interface Node {
  readonly nodeType: number;
}
interface HTMLElement extends Node {
  readonly tagName: string;
}
interface SVGElement extends Node {
  readonly ownerSVGElement: SVGElement | null;
}
interface HTMLElementTagNameMap {
  readonly body: HTMLElement;
}
