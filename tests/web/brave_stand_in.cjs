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

// The older server refuses itself a second request within a second, also where one search of its own makes three. Its
// clock runs fast here, so that it comes to the end of them.
if (process.env.BRAVE_FAST_CLOCK) {
  const start = Date.now();
  let looked = 0;
  Date.now = () => start + 2_000 * ++looked;
}
