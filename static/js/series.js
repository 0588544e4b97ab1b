// The numbers behind a page's charts: named tables of rows, merged delta by delta on their first column.

export class Series {
  constructor(tables) {
    this.tables = new Map();
    this.merge(tables);
  }

  /** A table replaces the old one if it says `whole`; else its rows replace rows of the same first column. */
  merge(tables) {
    for (const [name, table] of Object.entries(tables ?? {})) {
      const old = this.tables.get(name);
      if (!old || table.whole) {
        this.tables.set(name, { ...table, rows: [...table.rows] });
        continue;
      }
      const byKey = new Map(old.rows.map((row) => [row[0], row]));
      table.rows.forEach((row) => byKey.set(row[0], row));
      old.rows = [...byKey.values()].sort((a, b) => a[0] - b[0]);
    }
  }

  has(name) {
    return (this.tables.get(name)?.rows.length ?? 0) > 0;
  }

  /** One column, in the order of the rows. */
  column(name, column) {
    const table = this.tables.get(name);
    if (!table) return [];
    const at = table.columns.indexOf(column);
    return table.rows.map((row) => row[at] ?? null);
  }

  /** Rows as objects. */
  rows(name) {
    const table = this.tables.get(name);
    if (!table) return [];
    return table.rows.map((row) => Object.fromEntries(table.columns.map((column, i) => [column, row[i] ?? null])));
  }
}

/** Mean of the last `width` values since the last gap; null until half a window is there, so that no line starts on noise. */
export function trailingMean(values, width) {
  let from = 0;
  return values.map((value, i) => {
    if (value === null) {
      from = i + 1;
      return null;
    }
    const part = values.slice(Math.max(from, i - width + 1), i + 1);
    return part.length < width / 2 ? null : part.reduce((a, b) => a + b, 0) / part.length;
  });
}

/** The values with a null wherever two rows do not follow each other (a rewind) or another way of learning begins. */
export function breakAt(rows, column) {
  const x = [];
  const y = [];
  rows.forEach((row, i) => {
    const before = rows[i - 1];
    if (before && (row.parent !== before.version || row.kind !== before.kind)) {
      x.push(row.version);
      y.push(null);
    }
    x.push(row.version);
    y.push(row[column]);
  });
  return { x, y };
}
