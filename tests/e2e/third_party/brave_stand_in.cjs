// Sends requests for Brave's API to the address in BRAVE_STAND_IN. Node has no setting for that.
const { fetch } = globalThis;
globalThis.fetch = (url, options) =>
  fetch(String(url).replace("https://api.search.brave.com", process.env.BRAVE_STAND_IN), options);
