// Rows of a table in the order and selection that its user wants. Nothing here draws.

/** `rows` by the values of one column; unknown ones come last in both directions, and equal ones keep their order. */
export function sorted(rows, value, descending) {
  const sign = descending ? -1 : 1;
  return rows
    .map((row, at) => ({ row, at, key: value(row) }))
    .sort((a, b) => {
      const [unknownA, unknownB] = [a.key ?? null, b.key ?? null].map((key) => key === null);
      if (unknownA || unknownB) return unknownA - unknownB || a.at - b.at;
      if (a.key === b.key) return a.at - b.at;
      return (a.key < b.key ? -1 : 1) * sign;
    })
    .map(({ row }) => row);
}

/** Rows in one of whose texts every word occurs. */
export function filtered(rows, texts, wanted) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return rows;
  return rows.filter((row) => {
    const all = texts(row).filter(Boolean).join("\n").toLowerCase();
    return words.every((word) => all.includes(word));
  });
}
