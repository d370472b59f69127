/**
 * What foreign code or text would do in the page, if it could: each is tried, and what comes out, by name, is the error that was thrown and the directive of the policy that
 * has refused it.
 */
export const INTRUSIONS = `(async () => {
  const make = (tag, more) => Object.assign(document.createElement(tag), more);
  const put = (tag, more) => document.body.append(make(tag, more));
  const RUN = "globalThis.ran = true";
  const ELSEWHERE = "https://example.com/x";
  const tries = {
    "a string as markup": () => { document.body.innerHTML = "<b>x</b>"; },
    "a string as a document": () => new DOMParser().parseFromString("<b>x</b>", "text/html"),
    "a string as code": () => globalThis.eval(RUN),
    "a script's address": () => put("script", { src: ELSEWHERE }),
    "a worker": () => new Worker(ELSEWHERE),
    "a handler": () => document.body.setAttribute("onclick", RUN),
    "a policy that makes strings good": () => globalThis.trustedTypes.createPolicy("x", { createHTML: (text) => text }),
    "a script": () => {
      const script = make("script");
      script.append(RUN);
      document.body.append(script);
    },
    "a style": () => put("style", { textContent: "body { opacity: 0.5 }" }),
    "a style attribute": () => document.body.setAttribute("style", "opacity: 0.5"),
    "a picture": () => put("img", { src: ELSEWHERE }),
    "a font": () => new FontFace("x", "url(" + ELSEWHERE + ")").load(),
    "a request": () => fetch(ELSEWHERE),
    "a frame": () => put("iframe", { src: ELSEWHERE }),
    "a form": () => {
      const form = make("form", { action: ELSEWHERE });
      document.body.append(form);
      form.submit();
    },
    "another base": () => document.head.append(make("base", { href: ELSEWHERE })),
  };
  const came = {};
  for (const [name, act] of Object.entries(tries)) {
    const refused = new Promise((resolve) =>
      addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective), { once: true }));
    let thrown = "";
    try {
      // What is loaded fails later.
      Promise.resolve(act()).catch(() => undefined);
    } catch (error) {
      thrown = error.name + ", ";
    }
    came[name] = thrown + await Promise.race([refused, new Promise((resolve) => setTimeout(resolve, 20_000, "nothing"))]);
  }
  return came;
})()`;
