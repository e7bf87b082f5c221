// The data of a page: a JSON document, and columns of integers, gzip-compressed and written as base64.
//
//   u32 little-endian   length of the document
//   UTF-8               the document; `tables` names columns: {rows, columns: {name: [offset, bytes]}}
//   bytes               columns: differences between neighbours, zigzag-coded, as LEB128

/** What the element with the data says, as {document, tables}. */
export async function unpack(base64) {
  const packed = fromBase64(base64);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return parse(new Uint8Array(await new Response(stream).arrayBuffer()));
}

export function fromBase64(text) {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

export function parse(bytes) {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const document = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const body = bytes.subarray(4 + length);
  const tables = {};
  for (const [name, { rows, columns }] of Object.entries(document.tables)) {
    tables[name] = { rows };
    for (const [column, [offset, size]] of Object.entries(columns)) {
      tables[name][column] = integers(body.subarray(offset, offset + size), rows);
    }
  }
  return { document, tables };
}

/** Exact up to 2^53, as all of JavaScript. */
export function integers(bytes, rows) {
  const out = new Float64Array(rows);
  let value = 0;
  let at = 0;
  for (let row = 0; row < rows; row += 1) {
    let byte = bytes[at];
    at += 1;
    const down = byte & 1; // apart from the number, which would lose its last bit above 2^52
    let size = (byte & 127) >> 1;
    for (let scale = 64; byte & 128; scale *= 128) {
      byte = bytes[at];
      at += 1;
      size += (byte & 127) * scale;
    }
    value += down ? -size - 1 : size;
    out[row] = value;
  }
  return out;
}
