// Questions to the API: what it answers, or an Error with its sentence and status.

export async function ask(path, options = {}) {
  const answer = await fetch(path, options);
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const told = await answer.text();
  let message = told;
  try {
    message = JSON.parse(told).error ?? told;
  } catch {
    // it is no JSON
  }
  throw Object.assign(new Error(message.trim()), { status: answer.status });
}

export const hasToken = () => location.hash.startsWith("#token=");

/** Exchanges the token of a link for a cookie; from now on the address is `then`. */
export async function login(then) {
  const token = location.hash.slice("#token=".length);
  history.replaceState(null, "", then);
  await ask("/login", { method: "POST", body: token });
}
