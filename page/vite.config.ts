import { createHash } from "node:crypto";
import { defineConfig, type Plugin } from "vite";

const hashed = (text: string) => `'sha256-${createHash("sha256").update(text, "utf8").digest("base64")}'`;

/** One file: script and style stand in the page itself, and its policy allows these two by their hashes and no other. */
function oneFile(): Plugin {
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_options, bundle) {
      const pages = Object.values(bundle).filter((each) => each.fileName.endsWith(".html"));
      let script = "";
      let style = "";
      for (const [name, each] of Object.entries(bundle)) {
        if (each.type === "chunk") script += each.code;
        else if (name.endsWith(".css")) style += String(each.source);
        else continue;
        delete bundle[name];
      }
      // An end tag inside a string would end the script.
      script = script.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
      const policy =
        `default-src 'none'; script-src ${hashed(script)}; style-src ${hashed(style)}; ` +
        `base-uri 'none'; form-action 'none'`;
      for (const page of pages) {
        if (page.type !== "asset") continue;
        page.source = String(page.source)
          .replace(/\s*<script type="module"[^>]*><\/script>/, "")
          .replace(/\s*<link rel="stylesheet"[^>]*>/, "")
          .replace("<!--policy-->", () => `<meta http-equiv="Content-Security-Policy" content="${policy}">`)
          .replace("<!--style-->", () => `<style>${style}</style>`)
          .replace("<!--script-->", () => `<script type="module">${script}</script>`);
      }
    },
  };
}

/** The report is one file; the live page is three, so that its policy allows no inline script at all. */
export default defineConfig(({ mode }) => ({
  base: "./",
  plugins: mode === "live" ? [] : [oneFile()],
  build: {
    outDir: "../src/ullage/report/page",
    emptyOutDir: mode !== "live",
    modulePreload: false,
    cssCodeSplit: false,
    target: "es2022",
    rollupOptions: {
      input: mode === "live" ? "index.html" : "report.html",
      output: { entryFileNames: "[name].js", assetFileNames: "[name][extname]" },
    },
  },
}));
