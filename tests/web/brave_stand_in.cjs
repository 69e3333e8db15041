// Requests for Brave's interface go to the stand-in.
const real = globalThis.fetch;
globalThis.fetch = (input, options) => {
  const url = new URL(input instanceof Request ? input.url : String(input));
  if (url.host === "api.search.brave.com") {
    const to = new URL(process.env.BRAVE_STAND_IN);
    url.protocol = to.protocol;
    url.host = to.host;
  }
  return real(url, options);
};
