// Builders of configurations: the options that they set, and that they read the same minibatches as
// a text.

#include <cntk_reader_host.h>

#include <algorithm>
#include <functional>

#include "data.hpp"

namespace {

using Keys = std::map<std::string, std::string>;

struct FreeSection {
  void operator()(cntk_reader_section* section) const { cntk_reader_section_free(section); }
};
using Section = std::unique_ptr<cntk_reader_section, FreeSection>;

// Returns the keys of a section with their texts, without quotes and blanks.
Keys KeysOf(const cntk_reader_section* section) {
  std::vector<cntk_reader_section_entry> entries(64);
  std::size_t count = 0;
  EXPECT_EQ(cntk_reader_section_list_entries(section, entries.data(), entries.size(), &count, nullptr),
            CNTK_READER_STATUS_OK);
  Keys keys;
  for (std::size_t i = 0; i < count; ++i) {
    std::string key(entries[i].key, entries[i].key_length);
    std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) { return std::tolower(c); });
    std::string& text = keys[key] = std::string(entries[i].text, entries[i].text_length);
    text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c == ' ' || c == '"'; }),
               text.end());
  }
  return keys;
}

Section Child(const cntk_reader_section* section, const char* key) {
  cntk_reader_section* child = nullptr;
  EXPECT_EQ(cntk_reader_section_open_child(section, key, CNTK_READER_NUL_TERMINATED, &child, nullptr),
            CNTK_READER_STATUS_OK);
  return Section(child);
}

// Parses a section in the configuration language.
Section Parse(const std::string& text) {
  const cntk_reader_section_entry entry = {"d", 1, text.data(), text.size(), 0, 0};
  cntk_reader_section* outer = nullptr;
  EXPECT_EQ(
      cntk_reader_section_create("test", CNTK_READER_NUL_TERMINATED, &entry, 1, nullptr, &outer, nullptr),
      CNTK_READER_STATUS_OK);
  const Section owner(outer);
  return Child(outer, "d");
}

// Returns the keys of each stream.
std::map<std::string, Keys> Input(const cntk_reader_section* section) {
  std::map<std::string, Keys> streams;
  const Section input = Child(section, "input");
  for (const auto& [name, text] : KeysOf(input.get()))
    streams[name] = KeysOf(Child(input.get(), name.c_str()).get());
  return streams;
}

// Checks the text of a builder. `keys` are those of the deserializer without `input`.
template <typename Builder>
void ExpectText(const Builder& builder, Keys keys, const std::map<std::string, Keys>& streams) {
  const Section section = Parse(builder.Text());
  Keys found = KeysOf(section.get());
  EXPECT_EQ(found.erase("input"), streams.empty() ? 0u : 1u);
  EXPECT_EQ(found, keys);
  if (!streams.empty()) {
    EXPECT_EQ(Input(section.get()), streams);
  }
}

class Configuration : public DataTest {
 protected:
  // Returns everything that a sweep delivers: values, indices and flags.
  static std::string Sweep1(cr::Reader reader) {
    std::string all;
    reader.StartEpoch(Sweep(3));
    for (const cr::Minibatch& minibatch : reader.Minibatches()) {
      for (std::size_t i = 0; i < minibatch.size(); ++i) {
        const auto block = minibatch[i].Block();
        all.append(reinterpret_cast<const char*>(block.data()), block.size());
      }
      all += minibatch.EndOfSweep() ? "|" : ",";
    }
    return all;
  }
};

TEST_F(Configuration, TextOfCtfAndCbf) {
  const Keys ctf = {{"type", "CNTKTextFormatDeserializer"}, {"module", "CNTKTextFormatReader"}};
  const Keys cbf = {{"type", "CNTKBinaryFormatDeserializer"}, {"module", "CNTKBinaryReader"}};
  const auto with = [](Keys keys, const Keys& others) {
    keys.insert(others.begin(), others.end());
    return keys;
  };
  ExpectText(cr::CtfDeserializer("/folder/with;and,=x.ctf")
                 .Dense("features", 784)
                 .Alias("f,[x];=(1:2)")
                 .Sparse("labels", 10)
                 .DefinesMinibatchSize()
                 .ChunkSize(1 << 20)
                 .MaxErrors(3)
                 .SkipSequenceIds()
                 .CacheIndex(false)
                 .KeepDataInMemory()
                 .StrictSequences(false)
                 .SharedIds(),
             with(ctf, {{"file", "/folder/with;and,=x.ctf"},
                        {"chunksizeinbytes", "1048576"},
                        {"maxerrors", "3"},
                        {"skipsequenceids", "true"},
                        {"cacheindex", "false"},
                        {"keepdatainmemory", "true"},
                        {"strictsequences", "false"},
                        {"sharedids", "true"}}),
             {{"features", {{"dim", "784"}, {"format", "dense"}, {"alias", "f,[x];=(1:2)"}}},
              {"labels", {{"dim", "10"}, {"format", "sparse"}, {"definesmbsize", "true"}}}});
  ExpectText(cr::CtfDeserializer("a.ctf")
                 .Dense("pixels", 784)
                 .Element(cr::ElementType::kUInt8)
                 .Sparse("words", 300)
                 .Ids(cr::ElementType::kInt64)
                 .Padding(-100),
             with(ctf, {{"file", "a.ctf"}}),
             {{"pixels", {{"dim", "784"}, {"format", "dense"}, {"element", "uint8"}}},
              {"words", {{"dim", "300"}, {"format", "sparse"}, {"ids", "int64"}, {"padding", "-100"}}}});
  ExpectText(cr::CbfDeserializer("train.cbf"), with(cbf, {{"file", "train.cbf"}}), {});
  ExpectText(
      cr::CbfDeserializer("train.cbf").Rename("x", "features").Rename("y", "labels").KeepDataInMemory(),
      with(cbf, {{"file", "train.cbf"}, {"keepdatainmemory", "true"}}),
      {{"x", {{"alias", "features"}}}, {"y", {{"alias", "labels"}}}});
  ExpectText(cr::CbfDeserializer("train.cbf")
                 .Rename("x", "words")
                 .Ids("x", cr::ElementType::kInt32)
                 .Padding("x", 7)
                 .Ids("y", cr::ElementType::kInt64),
             with(cbf, {{"file", "train.cbf"}}),
             {{"x", {{"alias", "words"}, {"ids", "int32"}, {"padding", "7"}}}, {"y", {{"ids", "int64"}}}});
  ExpectText(cr::CtfDeserializer("a.ctf").Dense("x", 1).AddFile("b:1.ctf").AddFile("c-*.ctf"),
             with(ctf, {{"file", "(a.ctf:b:1.ctf:c-*.ctf)"}}), {{"x", {{"dim", "1"}, {"format", "dense"}}}});
  ExpectText(cr::CbfDeserializer("a \"").AddFile("b").SharedIds(),
             with(cbf, {{"file", "(file:a%20%22:b)"}, {"sharedids", "true"}}), {});
}

// Files of a list follow each other; ids are separate for each file unless they are shared.
TEST_F(Configuration, SeveralFilesAreReadInOrder) {
  Write("part-1.ctf", "1 |x 1\n2 |x 2\n");
  Write("part-2.ctf", "3 |x 3\n");
  cr::ReaderOptions options;
  options.randomize = false;
  const auto keys = [&](const cr::CtfDeserializer& files) {
    cr::Reader reader = cr::Reader::Open(options, files);
    reader.StartEpoch(Sweep(8));
    const cr::Minibatch minibatch = reader.GetMinibatch();
    return std::vector<std::uint64_t>(minibatch.Keys().begin(), minibatch.Keys().end());
  };
  const auto list = cr::CtfDeserializer(Path("part-1.ctf")).AddFile(Path("part-2.ctf")).Dense("x", 1);
  const std::vector<std::uint64_t> own = {1, 2, (std::uint64_t{1} << 44) + 3}, shared = {1, 2, 3};
  EXPECT_EQ(keys(list), own);
  EXPECT_EQ(keys(cr::CtfDeserializer(list).SharedIds()), shared);
  EXPECT_EQ(keys(cr::CtfDeserializer(Path("part-?.ctf")).Dense("x", 1).SharedIds()), shared);
  const auto none = cr::CtfDeserializer(Path("none-*.ctf")).Dense("x", 1);
  EXPECT_EQ(ErrorOf([&] { keys(none); }).Kind(), cr::ErrorKind::kIo);
}

TEST_F(Configuration, EveryOptionIsAKey) {
  cr::ReaderOptions options;
  EXPECT_EQ(options.Text(), "");
  options.randomize = true;
  options.randomization_window_in_chunks = 8;
  options.randomization_seed = 7;
  options.frame_mode = false;
  options.truncation_length = 5;
  options.right_splice = 1;
  options.local_timeline = false;
  options.lockstep = false;
  options.precision = cr::ElementType::kDouble;
  options.max_errors = 2;
  options.trace_level = 0;
  options.numeric_keys = true;
  options.hash_keys = false;
  options.window_chunk_size = 1000;
  options.prefetch = false;
  options.check_data = true;
  options.confine_paths = {"a", "b"};
  const Keys expected = {{"randomize", "true"},
                         {"randomizationwindow", "8"},
                         {"samplebasedrandomizationwindow", "false"},
                         {"randomizationseed", "7"},
                         {"framemode", "false"},
                         {"truncated", "true"},
                         {"truncationlength", "5"},
                         {"rightsplice", "1"},
                         {"expandsparse", "false"},
                         {"localtimeline", "false"},
                         {"lockstep", "false"},
                         {"precision", "double"},
                         {"maxerrors", "2"},
                         {"tracelevel", "0"},
                         {"usenumericsequencekeys", "true"},
                         {"hashsequencekeys", "false"},
                         {"chunksizeinbytes", "1000"},
                         {"prefetch", "false"},
                         {"checkdata", "true"},
                         {"confinepaths", "true"},
                         {"allowedfolders", "(a:b)"}};
  EXPECT_EQ(KeysOf(Parse("[ " + options.Text() + " ]").get()), expected);
  options.expand_sparse = true;
  EXPECT_NE(options.Text().find("expandSparse = true"), std::string::npos) << options.Text();
  options.randomization_window_in_samples = 8;
  EXPECT_EQ(ErrorOf([&] { options.Text(); }).Kind(), cr::ErrorKind::kConfig);
}

TEST_F(Configuration, TextOfSpeechDeserializers) {
  const auto keys = [](const char* type, Keys others = {}) {
    others.insert({{"type", type}, {"module", "HTKDeserializers"}});
    return others;
  };
  ExpectText(cr::HtkFeatureDeserializer("features", "/folder;=[x]/train.scp", 40)
                 .ContextWindow(5, 4)
                 .PrefixPath("/data")
                 .ExpandToUtterance()
                 .MaxSequenceSize(1000)
                 .DefinesMinibatchSize(),
             keys("HTKFeatureDeserializer", {{"maxsequencesize", "1000"}, {"definesmbsize", "true"}}),
             {{"features",
               {{"dim", "40"},
                {"scpfile", "/folder;=[x]/train.scp"},
                {"contextwindow", "5:4"},
                {"prefixpathinscp", "/data"},
                {"expandtoutterance", "true"}}}});
  ExpectText(cr::HtkFeatureDeserializer("features", "a.scp", 40).AddScpFile("b:1.scp"),
             keys("HTKFeatureDeserializer"), {{"features", {{"dim", "40"}, {"scpfile", "(a.scp:b:1.scp)"}}}});
  ExpectText(cr::HtkMlfDeserializer("labels", "train.mlf", 132)
                 .StateList("states.list")
                 .PhoneBoundaries()
                 .CacheIndex()
                 .ChunkSize(1 << 20),
             keys("HTKMLFDeserializer", {{"chunksizeinbytes", "1048576"}}),
             {{"labels",
               {{"labeldim", "132"},
                {"mlffile", "train.mlf"},
                {"labelmappingfile", "states.list"},
                {"phoneboundaries", "true"},
                {"cacheindex", "true"}}}});
  // Paths that cannot be quoted are written as URLs.
  ExpectText(cr::HtkMlfDeserializer("labels", "a*.mlf", 132).AddMlfFile("b.mlf"), keys("HTKMLFDeserializer"),
             {{"labels", {{"labeldim", "132"}, {"mlffilelist", "(file:a%2A.mlf:b.mlf)"}}}});
  ExpectText(cr::HtkMlfBinaryDeserializer("labels", "a.bin", 9).AddMlfFile("b.bin").CacheIndex(),
             keys("HTKMLFBinaryDeserializer"),
             {{"labels", {{"labeldim", "9"}, {"mlffilelist", "(a.bin:b.bin)"}, {"cacheindex", "true"}}}});
  ExpectText(cr::HtkMlfDeserializer("labels", "a.mlf", 9).Ids(cr::ElementType::kInt64).Padding(-1),
             keys("HTKMLFDeserializer"),
             {{"labels", {{"labeldim", "9"}, {"mlffile", "a.mlf"}, {"ids", "int64"}, {"padding", "-1"}}}});
  ExpectText(cr::HtkMlfBinaryDeserializer("labels", "a.bin", 9).Ids(cr::ElementType::kInt32).Padding(1),
             keys("HTKMLFBinaryDeserializer"),
             {{"labels", {{"labeldim", "9"}, {"mlffile", "a.bin"}, {"ids", "int32"}, {"padding", "1"}}}});
  ExpectText(
      cr::KaldiDeserializer::Archive("k", "f.ark", 4).Sparse().Ids(cr::ElementType::kInt32).Padding(2),
      {{"type", "KaldiDeserializer"}},
      {{"k",
        {{"dim", "4"}, {"arkfile", "f.ark"}, {"format", "sparse"}, {"ids", "int32"}, {"padding", "2"}}}});
  ExpectText(cr::LatticeDeserializer("l", "lat.idx").CacheIndex().ChunkSize(9),
             keys("LatticeDeserializer", {{"chunksizeinbytes", "9"}}),
             {{"l", {{"latticeindexfile", "lat.idx"}, {"cacheindex", "true"}}}});
  ExpectText(cr::KaldiDeserializer::Script("k", "f.scp", 40).ContextWindow(1, 0).MaxSequenceSize(9),
             {{"type", "KaldiDeserializer"}, {"maxsequencesize", "9"}},
             {{"k", {{"dim", "40"}, {"scpfile", "f.scp"}, {"contextwindow", "1:0"}}}});
  ExpectText(
      cr::KaldiDeserializer::Archive("k", "f.ark", 40).Sparse().ExpandToUtterance().DefinesMinibatchSize(),
      {{"type", "KaldiDeserializer"}, {"definesmbsize", "true"}},
      {{"k", {{"dim", "40"}, {"arkfile", "f.ark"}, {"format", "sparse"}, {"expandtoutterance", "true"}}}});
}

// Two script files and two label files, whose names can only be written as URLs.
TEST_F(Configuration, SpeechIsReadWithAnyNames) {
  const auto utterance = [&](const std::string& name, char value) {
    // Two frames of one number, 4 bytes each, in big-endian order; the kind is USER.
    const std::string header("\0\0\0\2\0\1\x86\xa0\0\4\0\x09", 12), one("\x3f\x80\0\0", 4);
    std::string other = "\x40" + std::string(3, '\0');
    other[1] = value;
    const std::string archive = Write(name + ".htk", header + one + other);
    return Write(name + " #\".scp", name + "=" + archive + "[0,1]\n");
  };
  const auto labels = [&](const std::string& name, const char* classes) {
    return Write(name + " #*.mlf", "#!MLF!#\n\"" + name + ".lab\"\n0 100000 s " + classes[0] +
                                       "\n100000 200000 s " + classes[1] + "\n.\n");
  };
  cr::ReaderOptions options;
  options.randomize = false;
  cr::Reader reader = cr::Reader::Open(
      options, {cr::HtkFeatureDeserializer("a b=c", utterance("u1", 0), 1).AddScpFile(utterance("u2", 64)),
                cr::HtkMlfDeserializer("[labels]", labels("u1", "01"), 3).AddMlfFile(labels("u2", "22"))});
  reader.StartEpoch(Sweep(10));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  const cr::StreamMinibatch features = minibatch["a b=c"];
  std::vector<float> values;
  for (const cr::Sequence& sequence : features.Sequences())
    for (std::size_t step = 0; step < sequence.Steps(); ++step)
      values.push_back(features.Column<float>(sequence.Column(step))[0]);
  EXPECT_EQ(values, (std::vector<float>{1, 2, 1, 3}));
  EXPECT_EQ(minibatch["[labels]"].Sequences().size(), 2u);
  cr::Reader single = cr::Reader::Open(options, {cr::HtkFeatureDeserializer("x", Path("u1 #\".scp"), 1),
                                                 cr::HtkMlfDeserializer("y", Path("u1 #*.mlf"), 3)});
  single.StartEpoch(Sweep(10));
  const cr::Minibatch frames = single.GetMinibatch();
  EXPECT_EQ(frames["x"].Columns(), 2u);
  const std::string archive = Write("k #\".ark", "u1  [\n 4\n 5 ]\n");
  cr::Reader kaldi = cr::Reader::Open(options, cr::KaldiDeserializer::Archive("k;", archive, 1));
  kaldi.StartEpoch(Sweep(10));
  const cr::Minibatch of_archive = kaldi.GetMinibatch();
  EXPECT_EQ(of_archive["k;"].Column<float>(1)[0], 5.0f);
}

// Each array is a stream; the keys are the language's.
TEST_F(Configuration, TextOfArrays) {
  ExpectText(cr::NumpyDeserializer()
                 .Array("x", "x.npy")
                 .Array("y", "a*.npy")
                 .DefinesMinibatchSize()
                 .Lengths("n.npy")
                 .ChunkSize(9),
             {{"type", "NumpyDeserializer"}, {"lengths", "n.npy"}, {"chunksizeinbytes", "9"}},
             {{"x", {{"file", "x.npy"}}}, {"y", {{"file", "file:a%2A.npy"}, {"definesmbsize", "true"}}}});
  EXPECT_EQ(ErrorOf([] { cr::NumpyDeserializer().DefinesMinibatchSize(); }).Kind(), cr::ErrorKind::kConfig);
}

// Two rows of two dimensions, and lengths that make them one sequence.
TEST_F(Configuration, ArraysAreReadWithAnyNames) {
  const auto array = [&](const std::string& name, const char* type, const char* shape, std::string values) {
    std::string described =
        std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': " + shape;
    described += ", }\n";
    const char size = static_cast<char>(described.size());
    return Write(name, std::string("\x93NUMPY\1\0", 8) + size + '\0' + described + values);
  };
  const std::string x = array("x #\".npy", "|u1", "(2, 3, 1)", "\1\2\3\4\5\6");
  const std::string lengths = array("n *.npy", "|u1", "(1,)", "\2");
  cr::ReaderOptions options;
  options.randomize = false;
  cr::Reader rows = cr::Reader::Open(options, cr::NumpyDeserializer().Array("a b=c", x));
  EXPECT_EQ(rows.GetStreamDescription("a b=c").shape, (std::vector<std::size_t>{1, 3}));
  rows.StartEpoch(Sweep(10));
  const cr::Minibatch of_rows = rows.GetMinibatch();
  EXPECT_EQ(of_rows["a b=c"].Sequences().size(), 2u);
  cr::Reader one = cr::Reader::Open(options, cr::NumpyDeserializer().Array("a b=c", x).Lengths(lengths));
  one.StartEpoch(Sweep(10));
  const cr::Minibatch minibatch = one.GetMinibatch();
  const cr::StreamMinibatch stream = minibatch["a b=c"];
  EXPECT_EQ(stream.Sequences().size(), 1u);
  EXPECT_EQ(stream.Columns(), 2u);
  EXPECT_EQ(stream.Column<std::uint8_t>(1)[2], 6);
}

TEST_F(Configuration, CopiesAreIndependent) {
  const auto ctf = cr::CtfDeserializer("a.ctf").Dense("x", 1);
  const std::string before = ctf.Text();
  cr::CtfDeserializer copy = ctf;
  copy.AddFile("b.ctf").Alias("l").Dense("y", 2).MaxErrors(3);
  EXPECT_EQ(ctf.Text(), before);
  EXPECT_EQ(copy.Text(), cr::CtfDeserializer("a.ctf")
                             .AddFile("b.ctf")
                             .Dense("x", 1)
                             .Alias("l")
                             .Dense("y", 2)
                             .MaxErrors(3)
                             .Text());
  copy = ctf;
  EXPECT_EQ(copy.Text(), before);
  const cr::CtfDeserializer moved = std::move(copy);
  EXPECT_EQ(moved.Text(), before);
  copy = moved;
  EXPECT_EQ(copy.ChunkSize(7).Text(), cr::CtfDeserializer(ctf).ChunkSize(7).Text());
  const auto labels = cr::HtkMlfDeserializer("l", "a.mlf", 3);
  const std::string single = labels.Text();
  EXPECT_NE(cr::HtkMlfDeserializer(labels).AddMlfFile("b.mlf").CacheIndex().Text(), single);
  EXPECT_EQ(labels.Text(), single);
}

TEST_F(Configuration, PrecisionIsFloatOrDouble) {
  const auto ctf = cr::CtfDeserializer(Write("data.ctf", Lines(1))).Dense("x", 2);
  cr::ReaderOptions options;
  options.precision = cr::ElementType::kDouble;
  EXPECT_EQ(cr::Reader::Open(options, ctf).GetStreamDescription("x").element, cr::ElementType::kDouble);
  options.precision = cr::ElementType::kInt32;
  const cr::Error error = ErrorOf([&] { cr::Reader::Open(options, ctf); });
  EXPECT_EQ(error.Kind(), cr::ErrorKind::kConfig);
  EXPECT_EQ(error.Message().find("precision is std::int32_t. Expected ElementType::kFloat or kDouble."), 0u)
      << error.what();
  options.precision = static_cast<cr::ElementType>(99);
  EXPECT_EQ(ErrorOf([&] { (void)options.Text(); }).Kind(), cr::ErrorKind::kConfig);
}

TEST_F(Configuration, NamesOfUserDeserializersAreNotEmpty) {
  const cr::Error error = ErrorOf([] { cr::Deserializer("", std::shared_ptr<cr::UserDeserializer>()); });
  EXPECT_EQ(error.Kind(), cr::ErrorKind::kInvalidArgument);
  EXPECT_NE(error.Message().find("is empty"), std::string::npos) << error.what();
}

TEST_F(Configuration, ASingleDeserializerNeedsNoList) {
  const auto ctf = cr::CtfDeserializer(Write("data.ctf", Lines(40))).Dense("x", 2).Sparse("y", 5);
  cr::ReaderOptions options;
  options.randomization_seed = 5;
  EXPECT_EQ(Sweep1(cr::Reader::Open(options, ctf)), Sweep1(cr::Reader::Open(options, {ctf})));
  EXPECT_EQ(Sweep1(cr::Reader::Open(ctf)), Sweep1(cr::Reader::Open({ctf})));
}

TEST_F(Configuration, BuildersAndTextDeliverTheSame) {
  const std::string file = Write("data.ctf", Lines(40));
  const auto ctf = cr::CtfDeserializer(file).Dense("x", 2).Sparse("y", 5).ChunkSize(100);
  cr::ReaderOptions options;
  options.randomization_window_in_chunks = 3;
  options.randomization_seed = 5;
  const std::string by_types = Sweep1(cr::Reader::Open(options, {ctf}));
  const std::string text = options.Text() + "deserializers = ( " + ctf.Text() + " )";
  EXPECT_EQ(by_types, Sweep1(cr::Reader::FromText(text)));
  EXPECT_EQ(std::count(by_types.begin(), by_types.end(), '|') > 0, true);
  // Two files, joined by key; their order matters.
  std::string labels;
  for (int i = 39; i >= 0; --i) labels += std::to_string(i) + " |z " + std::to_string(100 + i) + "\n";
  const std::string keyed = Write("keyed.ctf", [] {
    std::string lines;
    for (int i = 0; i < 40; ++i) lines += std::to_string(i) + " |x " + std::to_string(i) + " 0\n";
    return lines;
  }());
  const auto first = cr::CtfDeserializer(keyed).Dense("x", 2),
             second = cr::CtfDeserializer(Write("z.ctf", labels)).Dense("z", 1);
  options = {};
  options.randomize = false;
  cr::Reader reader = cr::Reader::Open(options, {first, second});
  reader.StartEpoch(Sweep(40));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  EXPECT_EQ(minibatch["z"].Column<float>(7)[0], 107.0f);
  EXPECT_EQ(minibatch["x"].Column<float>(7)[0], 7.0f);
}

TEST_F(Configuration, UnusualFileNamesAreTakenLiterally) {
  for (const std::string name :
       {"a #b.ctf", "#c.ctf", "$x$ and $y$.ctf", "quote\".ctf", "[list] (1:2) ; = .ctf", " blanks ", "a\" #b",
        "line\nbreak.ctf", "default", "file:a", "a%20b", "'single'", "back\\slash"}) {
    const std::string file = Write(name, Lines(3));
    cr::Reader reader = cr::Reader::Open({cr::CtfDeserializer(file).Dense("x", 2).Sparse("y", 5)});
    EXPECT_EQ(reader.GetSizes().samples, 3u) << name;
    EXPECT_EQ(reader.GetMembers().at(0).name, file);
    const std::string text = cr::CtfDeserializer(file).Dense("x", 2).Sparse("y", 5).Text();
    EXPECT_EQ(cr::Reader::FromText("deserializers = (" + text + ")").GetSizes().samples, 3u) << text;
  }
  // Without any text.
  const std::string bytes = Write("\xff\xfe.ctf", Lines(3));
  EXPECT_EQ(cr::Reader::Open({cr::CtfDeserializer(bytes).Dense("x", 2).Sparse("y", 5)}).GetSizes().samples,
            3u);
}

TEST_F(Configuration, OneOfSeveralReadersIsChosen) {
  const std::string data = Write("data.ctf", Lines(3));
  const std::string reader =
      "reader = [ file = \"" + data + "\" ; input = [ x = [ dim = 2 ; format = dense ] ] ]";
  const std::string text = "train = [ a = $b$\n" + reader + " ]\ntest = [ " + reader + " ]\n";
  const std::string file = Write("whole.cntk", text);
  EXPECT_EQ(cr::Reader::ListReaders(file), (std::vector<std::string>{"test.reader", "train.reader"}));
  EXPECT_EQ(cr::Reader::FromFile(file, {}, {}, nullptr, "train.reader").GetSizes().samples, 3u);
  EXPECT_EQ(cr::Reader::FromText(text, {}, {}, nullptr, "test.reader").GetSizes().samples, 3u);
  const cr::Error error = ErrorOf([&] { cr::Reader::FromFile(file); });
  EXPECT_NE(std::string(error.what()).find("'test.reader', 'train.reader'"), std::string::npos)
      << error.what();
}

TEST_F(Configuration, NegativeSizesAreRefused) {
  const auto minus = static_cast<std::uint64_t>(-1);
  const cr::Error error = ErrorOf([&] { cr::CtfDeserializer("a").ChunkSize(minus); });
  EXPECT_EQ(error.Kind(), cr::ErrorKind::kConfig);
  EXPECT_NE(std::string(error.what())
                .find("The value of 'ChunkSize' is '-1'. Expected a whole number from 1 to "
                      "9223372036854775807."),
            std::string::npos)
      << error.what();
  EXPECT_EQ(ErrorOf([&] { cr::CtfDeserializer("a").Dense("x", minus); }).Kind(), cr::ErrorKind::kConfig);
  const auto minus32 = static_cast<std::uint32_t>(-1);
  EXPECT_EQ(ErrorOf([&] { cr::CtfDeserializer("a").MaxErrors(minus32); }).Kind(), cr::ErrorKind::kConfig);
  const auto features = cr::HtkFeatureDeserializer("x", "a", 1);
  EXPECT_EQ(ErrorOf([&] { cr::HtkFeatureDeserializer(features).ContextWindow(1, minus32); }).Kind(),
            cr::ErrorKind::kConfig);
  EXPECT_EQ(ErrorOf([&] { cr::HtkFeatureDeserializer(features).MaxSequenceSize(minus); }).Kind(),
            cr::ErrorKind::kConfig);
  cr::ReaderOptions options;
  options.randomization_window_in_chunks = minus;
  EXPECT_EQ(ErrorOf([&] { options.Text(); }).Kind(), cr::ErrorKind::kConfig);
  const cr::Error crop = ErrorOf([&] { (void)cr::Crop::Center().Size(minus32, 1); });
  EXPECT_NE(std::string(crop.what())
                .find("The value of 'Size' is '4294967295:1'. Expected a whole number from 0 to "
                      "2147483647, or two; a negative number wraps around."),
            std::string::npos)
      << crop.what();
  for (const auto option : {&cr::ReaderOptions::max_errors, &cr::ReaderOptions::trace_level}) {
    options = {};
    options.*option = minus32;
    EXPECT_EQ(ErrorOf([&] { options.Text(); }).Kind(), cr::ErrorKind::kConfig);
  }
  options = {};
  options.randomization_seed = minus;
  EXPECT_NE(options.Text().find("18446744073709551615"), std::string::npos);
}

TEST_F(Configuration, StreamNamesMayHaveAnyCharacters) {
  const std::string file = Write("data.ctf", "|l 1 2 |y 0:1\n");
  for (const std::string name : {"own name", " x", "a=b", "a b=c", "a;b", "a[0]", "(x", "x #y", "$a$b",
                                 "two\nlines", "q\"", "default", "\xc3\xa4"}) {
    cr::Reader reader =
        cr::Reader::Open({cr::CtfDeserializer(file).Dense(name, 2).Alias("l").Sparse("y", 5)});
    reader.StartEpoch(Sweep(1));
    const cr::Minibatch minibatch = reader.GetMinibatch();
    EXPECT_EQ(minibatch[name].Column<float>(0)[1], 2.0f) << name;
  }
  const auto fails = [](const auto& builder, const char* words) {
    const cr::Error error = ErrorOf([&] { cr::Reader::Open({builder}); });
    EXPECT_EQ(error.Kind(), cr::ErrorKind::kConfig);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  };
  fails(cr::CtfDeserializer(file).Dense("", 2), "A name is not empty");
  fails(cr::CtfDeserializer(file).Dense(std::string("a\0b", 3), 2), "no NUL character");
  fails(cr::CtfDeserializer(file).Dense("x", 2).Sparse("X", 2), "Two streams have the names 'x' and 'X'.");
  fails(cr::CbfDeserializer(file).Rename("x", "a").Rename("x", "b"), "Two streams have the name '");
  EXPECT_EQ(ErrorOf([&] { cr::CtfDeserializer(file).Alias("x"); }).Kind(), cr::ErrorKind::kConfig);
}

TEST_F(Configuration, NamesThatTheLanguageCannotWrite) {
  for (const std::string name :
       {"a b=c", " x", "a;b", "a[0]", "x #y", "$a$b", "two\nlines", "q\"", "default"}) {
    const auto kind = [&](const auto& builder) { return ErrorOf([&] { builder.Text(); }).Kind(); };
    EXPECT_EQ(kind(cr::CtfDeserializer("f").Dense(name, 2)), cr::ErrorKind::kConfig) << name;
    EXPECT_EQ(kind(cr::HtkFeatureDeserializer(name, "f", 2)), cr::ErrorKind::kConfig) << name;
    EXPECT_EQ(kind(cr::ImageDeserializer("f", "x", name, 2)), cr::ErrorKind::kConfig) << name;
  }
  EXPECT_EQ(ErrorOf([&] { cr::CbfDeserializer("f").Rename("x", "q\"").Text(); }).Kind(),
            cr::ErrorKind::kConfig);
}

TEST_F(Configuration, SizesProgressAndMemory) {
  cr::Reader reader = Open(Lines(10));
  const cr::Sizes sizes = reader.GetSizes();
  EXPECT_EQ(sizes.samples, 10u);
  EXPECT_EQ(sizes.sequences, 10u);
  EXPECT_EQ(sizes.chunks, 1u);
  const std::vector<cr::Member> members = reader.GetMembers();
  ASSERT_EQ(members.size(), 1u);
  EXPECT_EQ(members[0].name, Path("data.ctf"));
  EXPECT_EQ(members[0].type, "CNTKTextFormatDeserializer");
  EXPECT_EQ(members[0].sizes.samples, 10u);
  EXPECT_EQ(ErrorOf([&] { reader.GetProgress(); }).Kind(), cr::ErrorKind::kState);
  cr::EpochConfiguration epoch = Sweep(4);
  epoch.sweeps = 2;
  reader.StartEpoch(epoch);
  EXPECT_EQ(reader.GetProgress().delivered, 0u);
  EXPECT_EQ(reader.GetProgress().expected, 20u);
  for (const std::uint64_t delivered : {4u, 8u, 12u, 16u, 20u}) {
    reader.GetMinibatch();
    EXPECT_EQ(reader.GetProgress().delivered, delivered);
    EXPECT_EQ(reader.GetProgress().sweep, delivered / 10);
  }
  EXPECT_GT(reader.GetMemory().Total(), 0u);
  EXPECT_GT(reader.SuggestChunkSize(4), 0u);
}

TEST_F(Configuration, TruncationNeedsATruncatedReader) {
  cr::Reader reader = Open(Lines(3));
  cr::EpochConfiguration epoch = Sweep(1);
  epoch.truncation_length = 5;
  const cr::Error error = ErrorOf([&] { reader.StartEpoch(epoch); });
  EXPECT_EQ(error.Kind(), cr::ErrorKind::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find("truncated"), std::string::npos) << error.what();
  cr::ReaderConfiguration configuration;
  configuration.minibatch_size = 1;
  configuration.truncation_length = 5;
  reader.StartEpoch(Sweep(1));
  EXPECT_EQ(ErrorOf([&] { reader.SetConfiguration(configuration); }).Kind(), cr::ErrorKind::kInvalidArgument);
}

TEST_F(Configuration, MessagesUseTheHeadersOptionNames) {
  const std::string file = Write("data.ctf", "0 |x 1 2\n0 |x 3 4\n");
  const std::string texts = Write("texts.ctf", "utt1 |x 1 2\n");
  const auto message = [](const cr::ReaderOptions& options, const cr::CtfDeserializer& ctf) {
    const cr::Error error = ErrorOf([&] {
      cr::Reader reader = cr::Reader::Open(options, {ctf});
      reader.StartEpoch(Sweep(1));
      Rest(reader);
    });
    return std::string(error.what());
  };
  const auto data = [&](std::size_t dim) { return cr::CtfDeserializer(file).Dense("x", dim); };
  cr::ReaderOptions frames;
  frames.frame_mode = true;
  cr::ReaderOptions both = frames;
  both.truncation_length = 3;
  const cr::Error no_bytes = ErrorOf([&] { data(2).ChunkSize(0); });
  const std::pair<std::string, const char*> cases[] = {
      {message(frames, data(2)), "'frame_mode = true' needs sequences of one sample"},
      {message(both, data(2)), "Both 'frame_mode' and 'truncation_length' are set in ReaderOptions"},
      {message({}, data(1)), "Set 'dim' to the number of values"},
      {no_bytes.what(),
       "The value of 'ChunkSize' is '0'. Expected a whole number from 1 to 9223372036854775807."},
      {message({}, cr::CtfDeserializer(texts).Dense("x", 2)),
       "Set 'numeric_keys = false' in the 'ReaderOptions'"},
  };
  for (const auto& [text, wanted] : cases) {
    EXPECT_NE(text.find(wanted), std::string::npos) << text;
    EXPECT_EQ(text.find("configuration"), std::string::npos) << text;
  }
}

}  // namespace
